"""Corpus sources, one per module: make(split, **section) returns the documents."""
