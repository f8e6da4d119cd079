"""One objective per file: `make(tokenizer, length, steps, **section) -> Objective`.

`steps` is the length of the phase that it serves. base.py has the contract.
"""
