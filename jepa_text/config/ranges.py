"""What the numbers of a config may be: checked once, before anything is made of them.

A wrong number must not train nonsense (a negative rate climbs), nor end in an error of
arithmetic, after which a supervisor would try the same again.
"""

import json
import math
import operator
import re
import typing

# What every run has: sections, and beside them phases and a schedule. Those of OTHERS
# may be left out.
SECTIONS = ('data', 'model', 'optimizer', 'mesh', 'telemetry', 'evaluate', 'checkpoint')
OTHERS = {
    **dict.fromkeys(('geometry', 'watchdog', 'prepare', 'start', 'plan'), dict),
    **dict(name=str, profile_steps=list, compilation_cache=str, offload=str),
    'baseline': (str, dict),
}
EXAMPLE = 'configs/desk.py'
MOST = 2**31 - 1  # steps are counted in 32 bits
COUNT, EVERY = dict(whole=True, least=1), dict(whole=True, least=0)
# The range of each number, of which a run has those that are REQUIRED.
CONFIG = {
    'seed': EVERY,
    'steps': EVERY | dict(most=MOST),
    'tokens': EVERY,
    # Infinite: gradients are never clipped.
    'clip_norm': dict(above=0, finite=False),
    'accumulate': COUNT,
    'log_every': COUNT,
    'stop_after_skips': COUNT,
    'data.row_length': COUNT | dict(most=2**24),
    'data.batch_size': EVERY | dict(most=2**24),
    'data.batch_per_device': EVERY | dict(most=2**24),
    'data.threads': EVERY | dict(most=4096),
    'telemetry.every': EVERY,
    'evaluate.every': EVERY,
    'evaluate.rate': dict(above=0, most=1),
    'evaluate.most_rows': EVERY,
    'geometry.every': EVERY,
    'geometry.texts': dict(whole=True, least=2),
    'checkpoint.every': EVERY,
    'checkpoint.keep': COUNT,
    **{
        f'model.{name}': COUNT | dict(most=most)
        for name, most in dict(
            width=2**20, depth=10_000, heads=2**16, kv_heads=2**16, ffn_width=2**22
        ).items()
    },
}
REQUIRED = (
    *('seed', 'clip_norm', 'accumulate', 'log_every', 'stop_after_skips'),
    *('data.folder', 'data.row_length', 'telemetry.every', 'telemetry.on_collapse'),
    *('evaluate.every', 'checkpoint.every', 'checkpoint.keep'),
)
CHOICES = {
    'telemetry.on_collapse': ('warn', 'stop'),
    'model.dtype': ('float32', 'bfloat16', 'float16'),
}
NOTHING = type(None)
# Kinds of keywords whose default does not tell, wherever they are asked for.
KINDS = {
    **dict.fromkeys(('mlm', 'latent', 'regularise', 'become'), (dict,)),
    **dict.fromkeys(('balance', 'of'), (float, dict)),
    'momentum': (float, dict, NOTHING),
    **dict.fromkeys(('parts', 'shares', 'prefix'), (list,)),
    **dict.fromkeys(('target_scale', 'context_scale'), (list,)),
    'rate': (float, list, dict),
    'rates': (list, dict),
    'span_length': (int,),
    'preset': (str,),
}
HOLDS = dict(least=operator.ge, most=operator.le, above=operator.gt, below=operator.lt)
AS_WORDS = dict(least='at least', most='at most', above='above', below='below')
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
    `bounds`: least, most, above, below. `what` names it.

    >>> number('rate', 0.3, above=0, most=1)
    """
    right = isinstance(value, int | float) and not isinstance(value, bool)
    right = right and not math.isnan(value)
    right = right and (math.isfinite(value) or not (finite or whole))
    right = right and (not whole or value == value // 1)
    right = right and all(HOLDS[name](value, bound) for name, bound in bounds.items())
    if not right:
        words = ' and '.join(f'{AS_WORDS[k]} {v}' for k, v in bounds.items())
        kind = 'whole number' if whole else 'number'
        kind = f'finite {kind}' if finite and _is_infinite(value) else kind
        raise ValueError(f'{what}={value!r} must be a {kind} {words}'.rstrip() + '.')


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
        return isinstance(value, int) and abs(value) <= MOST
    return isinstance(value, int | float) and math.isfinite(value)


def plain(config):
    """The config as JSON gives it back; ValueError for what JSON cannot hold."""
    try:
        return json.loads(json.dumps(config))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f'The config holds what JSON cannot ({error}): use numbers, texts, booleans, '
            'None, lists and dicts.'
        ) from error


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
    """Raises ValueError for what the config of a run lacks, and what is out of range."""
    _check_parts(config)
    for key in REQUIRED:
        if _value(config, key) is None:
            raise ValueError(f'The config has no {key}, or it is None; see {EXAMPLE}.')
    for key, asked in CONFIG.items():
        if (value := _value(config, key)) is not None:
            number(key, value, **asked)
    for key, known in CHOICES.items():
        if (value := _value(config, key)) is not None and value not in known:
            raise ValueError(f'{key}={value!r}; there are: {", ".join(known)}.')
    if config['evaluate']['every']:
        for name, asked in (('rate', dict(above=0, most=1)), ('most_rows', COUNT)):
            number(f'evaluate.{name}', config['evaluate'].get(name), **asked)


def _check_parts(config):
    """Raises ValueError unless there are all sections, each one of its kind."""
    section('The config', config)
    if 'runs' in config and 'phases' not in config:
        raise ValueError(
            'The config has runs, so it is that of a study: `jepa-text study`. One run '
            'has phases instead, as configs/desk.py.'
        )
    wanted = {**dict.fromkeys(SECTIONS, dict), 'phases': list, 'schedule': (dict, float)}
    missing = [name for name in wanted if config.get(name) in (None, {}, [], ())]
    # What a run starts from decides what its model is.
    if missing and not (missing == ['model'] and config.get('start')):
        raise ValueError(
            f'The config has no {", ".join(missing)}: it is not that of a training run, '
            f'as {EXAMPLE} is.'
        )
    for name, kind in {**OTHERS, **wanted}.items():
        found, kinds = config.get(name), kind if isinstance(kind, tuple) else (kind,)
        if found is not None and not any(_is_a(found, one) for one in kinds):
            words = ' or '.join(WORDS[one] for one in kinds)
            raise ValueError(f'{name}={found!r} must be {words}; see {EXAMPLE}.')
    for index, phase in enumerate(config['phases']):
        if not isinstance(phase, dict) or not isinstance(phase.get('objective'), dict):
            raise ValueError(
                f'phases[{index}]={phase!r} must be a section with an objective, as '
                "dict(objective=dict(name='mlm'))."
            )


def _value(config, key):
    """The value of 'section.name' or 'name'; None if it is left out."""
    section, _, name = key.rpartition('.')
    return (config.get(section, {}) if section else config).get(name)
