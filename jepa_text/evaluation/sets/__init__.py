"""Data of tasks: examples with targets, splits, and builders for labeled sets."""
