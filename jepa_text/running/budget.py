"""How large a step is and how many there are, in rows, tokens and steps.

    data.batch_size    rows of a step, on all devices together, or
    data.batch_per_device
    steps              of the run, or
    tokens             of the run: steps = ceil(tokens / (rows x row_length))

Of each pair one is given; 0 or absent is not given. Tokens of a budget are places in
rows, padding too; `train/tokens` counts the real ones.
"""

import math

from jepa_text.config import ranges


def size(data, devices, steps=0, tokens=0):
    """(rows of a step on so many devices, steps of a run). Raises ValueError unless one
    of each pair is given; `data` is the section."""
    rows = rows_of_step(data, devices)
    name, number = _one('', {'steps': steps, 'tokens': tokens}, ('steps', 'tokens'))
    if name == 'steps':
        return rows, number
    return rows, math.ceil(number / (rows * data['row_length']))


def rows_of_step(data, devices):
    """Rows of a step on so many devices; `data` is the section, as a phase has it."""
    name, number = _one('data.', data, ('batch_size', 'batch_per_device'))
    return number * (devices if name == 'batch_per_device' else 1)


def _one(prefix, section, names):
    given = {name: section[name] for name in names if section.get(name)}
    first, second = (f'{prefix}{name}' for name in names)
    shown = ', '.join(f'{prefix}{name}={section.get(name, 0)!r}' for name in names)
    if len(given) != 1:
        raise ValueError(
            f'{shown}: exactly one of {first} and {second} must be given; set the other '
            'to 0 or leave it out.'
        )
    ((name, number),) = given.items()
    ranges.number(f'{prefix}{name}', number, whole=True, minimum=1)
    return name, int(number)
