"""Training objectives, one per file: `make(tokenizer, length, steps, **section)`.

`make` returns an `Objective`, whose contract is in base.py. `length` is the row length,
and `steps` the length of the phase that the objective is for.
"""
