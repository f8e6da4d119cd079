"""Rows: packed, in a folder on disk, brought from elsewhere."""
