"""What the numbers of a config may be: checked once, before anything is made of them.

A wrong number must not train nonsense (a negative rate climbs), nor end in an error of
arithmetic, after which a supervisor would try the same again.
"""

import math
import re

# Keys that a run cannot do without, and the range of each number among them.
SECTIONS = ('data', 'model', 'phases', 'optimizer', 'schedule', 'mesh')
CONFIG = {
    'seed': dict(whole=True, least=0),
    'clip_norm': dict(above=0),
    'accumulate': dict(whole=True, least=1),
    'log_every': dict(whole=True, least=1),
    'stop_after_skips': dict(whole=True, least=1),
    'telemetry.every': dict(whole=True, least=0),
    'evaluate.every': dict(whole=True, least=0),
    'evaluate.rate': dict(above=0, most=1),
    'evaluate.most_rows': dict(whole=True, least=0),
    'geometry.every': dict(whole=True, least=0),
    'geometry.texts': dict(whole=True, least=2),
    'checkpoint.every': dict(whole=True, least=0),
    'checkpoint.keep': dict(whole=True, least=1),
    **{
        f'model.{name}': dict(whole=True, least=1)
        for name in ('width', 'depth', 'heads', 'kv_heads', 'ffn_width')
    },
}
CHOICES = {
    'telemetry.on_collapse': ('warn', 'stop'),
    'model.dtype': ('float32', 'bfloat16', 'float16'),
}


def number(what, value, whole=False, least=None, most=None, above=None, below=None):
    """Raises ValueError unless `value` is a number of the kind and range that are asked;
    `what` names it.

    >>> number('rate', 0.3, above=0, most=1)
    """
    right = isinstance(value, int | float) and not isinstance(value, bool)
    right = right and not math.isnan(value) and (not whole or value == value // 1)
    for bound, holds in (
        (least, lambda: value >= least),
        (most, lambda: value <= most),
        (above, lambda: value > above),
        (below, lambda: value < below),
    ):
        right = right and (bound is None or holds())
    if not right:
        bounds = {'at least': least, 'above': above, 'at most': most, 'below': below}
        words = ' and '.join(f'{k} {v}' for k, v in bounds.items() if v is not None)
        kind = 'whole number' if whole else 'number'
        raise ValueError(f'{what}={value!r} must be a {kind} {words}'.rstrip() + '.')


def pattern(what, value):
    """Raises ValueError unless `value` is a regular expression."""
    try:
        re.compile(value)
    except (re.error, TypeError) as error:
        raise ValueError(
            f'{what}={value!r} is no regular expression: {error}.'
        ) from error


def in_steps(value, steps):
    """A number of steps, or a fraction of `steps` when below 1, as a whole number.

    >>> in_steps(0.25, 8), in_steps(3, 8)
    (2, 3)
    """
    return round(value * steps) if 0 < value < 1 else int(value)


def config(config):
    """Raises ValueError for what the config of a run lacks, and numbers out of range."""
    missing = [name for name in SECTIONS if not config.get(name)]
    if missing:
        raise ValueError(
            f'The config has no {", ".join(missing)}: it is not that of a training run, '
            'as configs/desk.py is.'
        )
    for key, asked in CONFIG.items():
        if (value := _value(config, key)) is not None:
            number(key, value, **asked)
    for key, known in CHOICES.items():
        if (value := _value(config, key)) is not None and value not in known:
            raise ValueError(f'{key}={value!r}; there are: {", ".join(known)}.')
    evaluate = config.get('evaluate', {})
    if evaluate.get('every'):
        number('evaluate.most_rows', evaluate['most_rows'], whole=True, least=1)


def _value(config, key):
    """The value of 'section.name' or 'name'; None if it is left out."""
    section, _, name = key.rpartition('.')
    return (config.get(section, {}) if section else config).get(name)
