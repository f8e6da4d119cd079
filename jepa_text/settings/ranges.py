"""Types and ranges of config values, checked before anything is built from them.

A wrong number must neither train silently (a negative learning rate climbs) nor fail
later with an arithmetic error, after which a supervisor would repeat the run.
"""

import math
import numbers
import operator
import re
import types
import typing

MAX_INT = 2**31 - 1  # steps are counted in 32 bits
HOLDS = dict(
    minimum=operator.ge, maximum=operator.le, above=operator.gt, below=operator.lt
)
AS_PHRASES = dict(minimum='at least', maximum='at most', above='above', below='below')
WORDS = {
    bool: 'True or False',
    int: 'an integer',
    float: 'a finite number',
    str: 'a string',
    list: 'a list',
    dict: 'a section, as dict(name=...)',
}


def number(what, value, whole=False, finite=True, **bounds):
    """Raises ValueError unless `value` is a number within the bounds.

    `whole` requires an integer, `finite` excludes infinity. The bounds are `minimum`,
    `maximum`, `above` and `below`. `what` names the value in errors.

    >>> number('rate', 0.3, above=0, maximum=1)
    """
    valid = isinstance(value, int | float) and not isinstance(value, bool)
    # Comparisons are False for NaN and, unlike math.isfinite, accept any integer.
    valid = valid and (abs(value) < math.inf if finite or whole else value == value)
    valid = valid and (not whole or value == value // 1)
    valid = valid and all(HOLDS[name](value, bound) for name, bound in bounds.items())
    if not valid:
        expected = describe(whole, finite and value in (math.inf, -math.inf), **bounds)
        raise ValueError(f'{what}={value!r} must be {expected}.')


def whole(what, value, **bounds):
    """Returns an integer of Python or numpy as an int; raises ValueError as `number`."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        value = int(value)
    number(what, value, whole=True, **bounds)
    return int(value)


def describe(whole=False, finite=False, **bounds):
    """Returns the requirements of `number` in words.

    >>> describe(whole=True, minimum=1)
    'an integer at least 1'
    """
    words = ' and '.join(f'{AS_PHRASES[k]} {v}' for k, v in bounds.items())
    kind = 'an integer' if whole else 'a finite number' if finite else 'a number'
    return f'{kind} {words}'.rstrip()


def keyword(what, parameter, value):
    """Raises ValueError unless `value` has the type of a function's parameter.

    The annotation gives the type, else the default. `what` names the function in errors.
    Values that are not plain config values pass: the program made them.
    """
    kinds = kinds_of(parameter)
    if not kinds or not isinstance(value, (*WORDS, tuple, types.NoneType)):
        return
    nothing = value is None and (parameter.default is None or types.NoneType in kinds)
    known = [kind for kind in kinds if kind is not types.NoneType]
    if not nothing and not any(_is_a(value, kind) for kind in known):
        words = ' or '.join(WORDS[kind] for kind in known)
        raise ValueError(f'{what}: {parameter.name}={value!r} must be {words}.')


def kinds_of(parameter):
    """Returns the types, of WORDS or types.NoneType, of a parameter; none if unknown."""
    if parameter.annotation is not parameter.empty:
        kinds = typing.get_args(parameter.annotation) or (parameter.annotation,)
    else:
        kinds = (type(parameter.default),)
    kinds = [list if kind is tuple else kind for kind in kinds]
    is_known = set(kinds) <= {*WORDS, types.NoneType} and kinds != [types.NoneType]
    return kinds if is_known else []


def is_section(value):
    """Returns whether a value is a dict or a ConfigDict."""
    return hasattr(value, 'keys')


def section(what, value):
    """Raises ValueError unless `value` is a section. `what` names it in errors."""
    if not is_section(value):
        raise ValueError(f'{what}={value!r} must be {WORDS[dict]}.')


def _is_a(value, kind):
    if kind is list:
        return isinstance(value, list | tuple)
    if kind is dict:
        return is_section(value)
    if isinstance(value, bool) or kind not in (int, float):
        return type(value) is kind
    if kind is int:
        return isinstance(value, int) and abs(value) <= MAX_INT
    return isinstance(value, int | float) and abs(value) < math.inf


def pattern(what, value):
    """Raises ValueError unless `value` is a valid regular expression."""
    try:
        re.compile(value)
    except (re.error, TypeError) as error:
        raise ValueError(
            f'{what}={value!r} is not a valid regular expression: {error}.'
        ) from error


def in_steps(what, section, steps):
    """Returns a section with its fractions of `steps` as numbers of steps.

    Raises ValueError, with the name `what`, if a length is given as both.

    >>> in_steps('schedule', {'warmup_fraction': 0.25}, 8)
    {'warmup_steps': 2}
    """
    made = {}
    for key, value in section.items():
        if key.endswith('_fraction'):
            number(f'{what}: {key}', value, minimum=0, maximum=1)
            key, value = other_length(key), round(value * steps)
            if key in section:
                raise ValueError(f'{what} has {key} and a fraction: give one of them.')
        made[key] = value
    both = section.get('warmup_fraction', 2) + section.get('decay_fraction', 2)
    if both <= 1:  # rounding must not make them longer than all steps
        made['decay_steps'] = min(made['decay_steps'], steps - made['warmup_steps'])
    return made


def other_length(key):
    """Returns the other name of a length: `warmup_fraction` of `warmup_steps`."""
    if key.endswith('steps'):
        return key.removesuffix('steps') + 'fraction'
    return key.removesuffix('fraction') + 'steps' if key.endswith('fraction') else None
