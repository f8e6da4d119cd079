"""Prepared rows: packing, storage in a folder, and copies of remote folders."""
