"""A trained encoder: loading it, its answers by the kind of task, and exporting it."""
