"""One task per file: make(**section) -> task.Task.

`name` in the section chooses the file; the rest is what `make` takes, mostly `path`: a
folder or file that is on this machine already; jepa_text/data/tables.py says which are
read.
"""
