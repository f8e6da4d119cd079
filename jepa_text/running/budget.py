"""Batch size and number of steps of a run, from rows, tokens or steps in the config.

    data.batch_size    rows per step, on all devices together, or
    data.batch_per_device
    steps              of the run, or
    tokens             of the run: steps = ceil(tokens / (rows x row_length))

Exactly one of each pair is given; 0 or absent means not given. The tokens of a budget
count every position of a row including padding; metrics of tokens count the
real ones, and `train/total_positions` every position read so far.
"""

import math

from jepa_text.config import ranges


def size(data, devices, steps=0, tokens=0):
    """Returns (rows per step, steps of the run) for a number of devices.

    `data` is the config section. Raises ValueError unless exactly one option of each pair
    is given.
    """
    rows = rows_of_step(data, devices)
    name, number = _exactly_one('', {'steps': steps, 'tokens': tokens})
    if name == 'steps':
        return rows, number
    return rows, math.ceil(number / (rows * data['row_length']))


def spans(phases, total):
    """Returns (start, stop) of each phase, from its `steps` or its `share` of all steps.

    The last phase may omit both, and takes the rest. Raises ValueError if the phases do
    not add up to `total` steps.
    """
    spans, start = [], 0
    for number, phase in enumerate(phases):
        if 'steps' in phase and 'share' in phase:
            raise ValueError(f'phase {number} has steps and a share: give one of them.')
        length = total - start
        if 'steps' in phase:
            length = int(phase['steps'])
        elif 'share' in phase:
            length = round(phase['share'] * total)
        spans.append((start, start + length))
        start += length
    if start != total or any(stop <= begin for begin, stop in spans):
        raise ValueError(
            f'phases cover steps {spans}, but the run has {total} steps: each phase '
            'needs at least one step, and together they must cover all steps. Change '
            'steps or share.'
        )
    return spans


def rows_of_step(data, devices):
    """Rows per step on so many devices; `data` is the section, as a phase has it."""
    names = ('batch_size', 'batch_per_device')
    name, number = _exactly_one('data.', {name: data.get(name, 0) for name in names})
    return number * (devices if name == 'batch_per_device' else 1)


def _exactly_one(prefix, options):
    """(name, value) of the one of two options that is not 0 or None."""
    given = {name: value for name, value in options.items() if value}
    if len(given) != 1:
        shown = ', '.join(f'{prefix}{name}={value!r}' for name, value in options.items())
        first, second = (f'{prefix}{name}' for name in options)
        raise ValueError(
            f'{shown}: exactly one of {first} and {second} must be given; set the other '
            'to 0 or leave it out.'
        )
    ((name, number),) = given.items()
    ranges.number(f'{prefix}{name}', number, whole=True, minimum=1)
    return name, int(number)
