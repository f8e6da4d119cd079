"""One objective per file: what is hidden, and how it is scored."""
