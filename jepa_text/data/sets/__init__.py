"""Labeled datasets from tables, CoNLL files, the hub or TensorFlow Datasets."""
