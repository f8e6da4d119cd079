"""What the numbers of a config may be: checked once, before anything is made of them.

A wrong number must not train nonsense (a negative rate climbs), nor end in an error of
arithmetic, after which a supervisor would try the same again.
"""

import math
import operator
import re
import typing

MAX_INT = 2**31 - 1  # steps are counted in 32 bits
NOTHING = type(None)
# Kinds of keywords whose default does not tell, wherever they are asked for.
KINDS = {
    **dict.fromkeys(('mlm', 'latent', 'regularizer', 'adapt'), (dict,)),
    **dict.fromkeys(('balance', 'of'), (float, dict)),
    'momentum': (float, dict, NOTHING),
    **dict.fromkeys(('parts', 'shares', 'prefix'), (list,)),
    **dict.fromkeys(('target_scale', 'context_scale'), (list,)),
    'rate': (float, list, dict),
    'lr_multipliers': (list, dict),
    'span_length': (int,),
    'preset': (str,),
}
HOLDS = dict(
    minimum=operator.ge, maximum=operator.le, above=operator.gt, below=operator.lt
)
AS_PHRASES = dict(minimum='at least', maximum='at most', above='above', below='below')
WORDS = {
    bool: 'True or False',
    int: 'a whole number',
    float: 'a finite number',
    str: 'a text',
    list: 'a list',
    dict: 'a section, as dict(name=...)',
}


def number(what, value, whole=False, finite=True, **bounds):
    """Raises ValueError unless `value` is a number of the kind that is asked, within the
    `bounds`: minimum, maximum, above, below. `what` names it.

    >>> number('rate', 0.3, above=0, maximum=1)
    """
    right = isinstance(value, int | float) and not isinstance(value, bool)
    right = right and not math.isnan(value)
    right = right and (math.isfinite(value) or not (finite or whole))
    right = right and (not whole or value == value // 1)
    right = right and all(HOLDS[name](value, bound) for name, bound in bounds.items())
    if not right:
        asked = describe(whole, finite and _is_infinite(value), **bounds)
        raise ValueError(f'{what}={value!r} must be {asked}.')


def describe(whole=False, finite=False, **bounds):
    """What is asked of a number, in words.

    >>> describe(whole=True, minimum=1)
    'a whole number at least 1'
    """
    words = ' and '.join(f'{AS_PHRASES[k]} {v}' for k, v in bounds.items())
    kind = 'whole number' if whole else 'number'
    return f'a {"finite " if finite else ""}{kind} {words}'.rstrip()


def _is_infinite(value):
    return isinstance(value, float) and math.isinf(value)


def keyword(what, parameter, value):
    """Raises ValueError unless `value` is of the kind that a parameter of a function
    takes: as KINDS says, or its annotation, or its default. `what` names the function.

    What is no plain value of a config was made by the program, and passes.
    """
    kinds = _kinds(parameter)
    if not kinds or not isinstance(value, (*WORDS, tuple, NOTHING)):
        return
    nothing = value is None and (parameter.default is None or NOTHING in kinds)
    known = [kind for kind in kinds if kind is not NOTHING]
    if not nothing and not any(_is_a(value, kind) for kind in known):
        words = ' or '.join(WORDS[kind] for kind in known)
        raise ValueError(f'{what}: {parameter.name}={value!r} must be {words}.')


def _kinds(parameter):
    """The types, of WORDS or NOTHING, that a parameter may have; none if unknown."""
    if parameter.name in KINDS:
        return KINDS[parameter.name]
    if parameter.annotation is not parameter.empty:
        kinds = typing.get_args(parameter.annotation) or (parameter.annotation,)
    else:
        kinds = (type(parameter.default),)
    kinds = [list if kind is tuple else kind for kind in kinds]
    return kinds if set(kinds) <= {*WORDS, NOTHING} and kinds != [NOTHING] else []


def is_section(value):
    """Is it a dict, or a ConfigDict?"""
    return hasattr(value, 'keys')


def section(what, value):
    """Raises ValueError unless `value` is a section; `what` names it."""
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
    return isinstance(value, int | float) and math.isfinite(value)


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
