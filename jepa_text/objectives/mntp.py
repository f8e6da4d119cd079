"""Masked next-token prediction (LLM2Vec): predicts masked token i at position i - 1.

Suited to decoders that are converted to encoders: the head remains a next-token head.
"""

from jepa_text.settings import resolve


def make(tokenizer, length, steps, shift=1, **section):
    """Returns an MLM with shift=1; takes all other keywords of objectives/mlm.py.

    Raises ValueError for another shift.
    """
    if shift != 1:
        raise ValueError(f"mntp: shift={shift!r} must be 1; without a shift it is 'mlm'.")
    section = {'name': 'mlm', 'shift': 1, **section}
    return resolve.build(
        'objectives', section, tokenizer=tokenizer, length=length, steps=steps
    )
