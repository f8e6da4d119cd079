"""The number of steps of a run, and of its phases.

The tokens of a budget count every position of a row including padding; metrics of tokens
count the real ones, and `train/total_positions` every position read so far.
"""

import math


def total_steps(config):
    """Returns the steps of the run of a config: its `steps`, or those whose rows have as
    many `tokens`.

    0 or None is not given. Raises ValueError unless exactly one of both is given, and for
    tokens if a phase reads other data, so that steps have different sizes.
    """
    steps, tokens, data = config.get('steps'), config.get('tokens'), config['data']
    if bool(steps) == bool(tokens):
        raise ValueError(
            f'steps={steps!r}, tokens={tokens!r}: exactly one of steps and tokens must '
            'be given; set the other to 0 or leave it out.'
        )
    if steps:
        return steps
    if any(phase.get('data') for phase in config['phases']):
        raise ValueError(
            f'tokens={tokens:,}, but a phase has its own data, so steps differ in size. '
            'Set steps instead.'
        )
    return math.ceil(tokens / (data['batch_size'] * data['row_length']))


def spans(phases, total):
    """Returns (start, stop) of each phase, from its `steps` or `fraction` of all steps.

    The last phase may omit both, and takes the rest. Raises ValueError if the phases do
    not add up to `total` steps.
    """
    spans, start = [], 0
    for number, phase in enumerate(phases):
        if 'steps' in phase and 'fraction' in phase:
            raise ValueError(f'phase {number} has steps and fraction: give one of them.')
        length = total - start
        if 'steps' in phase:
            length = int(phase['steps'])
        elif 'fraction' in phase:
            length = round(phase['fraction'] * total)
            is_last = number == len(phases) - 1
            if is_last and abs(total - start - length) <= number:
                length = total - start  # what rounding of the fractions left
        spans.append((start, start + length))
        start += length
    if start != total or any(stop <= begin for begin, stop in spans):
        raise ValueError(
            f'phases cover steps {spans}, but the run has {total} steps: each phase '
            'needs at least one step, and together they must cover all steps. Change '
            'steps or fraction.'
        )
    return spans
