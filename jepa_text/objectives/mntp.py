"""Masked next-token prediction: masked token i is predicted at i - 1 (LLM2Vec).

What a decoder that becomes an encoder does best: its head stays the next-token head.
"""

from jepa_text.config import resolve


def make(tokenizer, length, steps, **section):
    """The keywords of objectives/mlm.py but for `shift`, which is 1."""
    section = {'name': 'mlm', 'shift': 1, 'label': 'mntp', **section}
    return resolve.build(
        'objectives', section, tokenizer=tokenizer, length=length, steps=steps
    )
