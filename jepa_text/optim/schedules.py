"""step -> scalar: learning rates, momenta, weights.

    constant       one value
    linear         a straight line from start to end
    cosine         half a cosine from start to end
    wsd            warm-up, stable, decay to 0
    wsd_twice      that, and once more: a run that goes on after its decay
    warmup_cosine  warm-up, then half a cosine
    rewarmed       another schedule, rising anew after a switch of phases
    joined         one schedule up to a step, then another, without a jump
    of_run         that of a run which got more steps, once or several times

Each gives a function of the step, an integer or float scalar, to a float32 scalar: pure,
safe under jit and vmap, without state. `make` makes one from a section of a config.
"""

import inspect

import jax.numpy as jnp

from jepa_text.config import ranges, resolve

MAX_INT = 2**31 - 1  # of whole numbers: what jax holds as one


def make(section, steps, what='schedule'):
    """The function that a config section names: `{'name': 'wsd', 'peak': 3e-3, ...}`.

    A plain number is a constant. `steps` is the length of the run, for schedules that
    end with it; `what` names the section in errors. Raises ValueError for an unknown
    name or keyword.

    >>> schedule = make({'name': 'linear', 'start': 1.0, 'end': 0.0}, steps=10)
    >>> print(schedule(0), schedule(5), schedule(10), make(0.9, steps=10)(3))
    1.0 0.5 0.0 0.9
    """
    if not ranges.is_section(section):
        ranges.number(what, section)
        return constant(float(section))
    keywords = dict(section)
    name = keywords.pop('name', None)
    if isinstance(name, str) and '.' in name:
        return resolve.call(name, resolve.own(what, name), keywords, steps=steps)
    if not isinstance(name, str) or name not in SCHEDULES:
        known = ', '.join(SCHEDULES)
        raise ValueError(f'{what} {name!r} does not exist; there are: {known}.')
    parameters = inspect.signature(SCHEDULES[name]).parameters
    if 'steps' in parameters:
        keywords.setdefault('steps', steps)
    for key in keywords.keys() & parameters.keys():
        value = keywords[key]
        maximum = {'maximum': MAX_INT} if isinstance(value, int) else {}
        ranges.number(f'{what} {name!r}: {key}', value, minimum=0, **maximum)
    return resolve.call(f'{what} {name!r}', SCHEDULES[name], keywords)


def constant(value):
    """value, at every step.

    >>> print(constant(0.5)(7))
    0.5
    """
    return lambda step: jnp.full((), value, jnp.float32)


def linear(start, end, steps):
    """start + (end - start) * step / steps up to step `steps`, and `end` after that.

    The paper's EMA momentum goes so from 0.996 to 1 (arXiv 2606.05173).

    >>> print(linear(0.0, 1.0, steps=4)(jnp.arange(6)))
    [0.   0.25 0.5  0.75 1.   1.  ]
    """
    return lambda step: start + (end - start) * _fraction(step, steps)


def cosine(start, end, steps):
    """end + (start - end) (1 + cos(pi step / steps)) / 2 up to step `steps`, then `end`.

    Half a period of SGDR's (arXiv 1608.03983, equation 5).

    >>> print(cosine(1.0, 0.0, steps=2)(jnp.arange(4)).round(4))
    [1.  0.5 0.  0. ]
    """
    return lambda step: (
        end + (start - end) * 0.5 * (1 + jnp.cos(jnp.pi * _fraction(step, steps)))
    )


def wsd(peak, warmup, decay, steps):
    """Warm-up, stable, decay, exactly as arXiv 2507.00994 trained (section 2.3).

    peak * (k + 1) / warmup for k < warmup; peak * (1 - (k - (steps - decay) + 1) /
    decay) in the last `decay` steps, so that the last step has rate 0; else `peak`.
    `warmup` and `decay` are steps, or fractions of `steps` when below 1. Raises
    ValueError if they exceed `steps` together.

    >>> print(wsd(1.0, warmup=2, decay=4, steps=8)(jnp.arange(8)))
    [0.5  1.   1.   1.   0.75 0.5  0.25 0.  ]
    """
    warmup, decay = ranges.in_steps(warmup, steps), ranges.in_steps(decay, steps)
    if warmup + decay > steps:
        raise ValueError(
            f'warmup ({warmup}) + decay ({decay}) exceed the {steps} steps of the run; '
            'shorten them or train longer.'
        )

    def schedule(step):
        k = jnp.asarray(step, jnp.float32)
        rising = (k + 1) / max(warmup, 1)
        falling = 1 - (k - (steps - decay) + 1) / max(decay, 1)
        scale = jnp.where(k < warmup, rising, 1.0)
        scale = jnp.where((k >= steps - decay) & (decay > 0), falling, scale)
        return peak * jnp.clip(scale, 0.0, 1.0)

    return schedule


def wsd_twice(peak, warmup, decay, first, steps, again=0):
    """`wsd` over the `first` steps, then another over the rest: from 0 at once, or in
    `again` steps, back to the peak. Continued pretraining of a decayed model in one run.

    `first` and `again` are in steps, or fractions when below 1: of `steps`, and of the
    rest. Raises ValueError unless `first` lies within the run.

    >>> schedule = wsd_twice(1.0, warmup=1, decay=2, first=4, steps=8)
    >>> print(schedule(jnp.arange(8)))
    [1.  1.  0.5 0.  1.  1.  0.5 0. ]
    """
    first = ranges.in_steps(first, steps)
    if not 0 < first < steps:
        raise ValueError(
            f'wsd_twice: first={first} must lie within the {steps} steps of the run.'
        )
    before = wsd(peak, warmup, decay, first)
    after = wsd(peak, again, decay, steps - first)
    return lambda step: jnp.where(step < first, before(step), after(step - first))


def warmup_cosine(peak, warmup, steps, end=0.0):
    """peak * (k + 1) / warmup for k < warmup, then half a cosine to `end` at `steps`.

    `warmup` is in steps, or a fraction of `steps` when below 1. Raises ValueError unless
    it ends before the run does.

    >>> print(warmup_cosine(1.0, warmup=2, steps=6)(jnp.array([0, 1, 2, 4, 6])).round(4))
    [0.5 1.  1.  0.5 0. ]
    """
    warmup = ranges.in_steps(warmup, steps)
    if warmup >= steps:
        raise ValueError(
            f'warmup ({warmup}) takes all {steps} steps of the run: shorten it, or train '
            'longer.'
        )
    fall = cosine(peak, end, max(steps - warmup, 1))

    def schedule(step):
        rising = peak * (jnp.asarray(step, jnp.float32) + 1) / max(warmup, 1)
        return jnp.where(step < warmup, rising, fall(step - warmup))

    return schedule


def rewarmed(schedule, start, steps):
    """`schedule`, but rising linearly from 0 in the `steps` after step `start`.

    >>> print(rewarmed(constant(1.0), start=10, steps=4)(jnp.arange(10, 15)))
    [0.25 0.5  0.75 1.   1.  ]
    """
    if not steps:
        return schedule
    return lambda step: schedule(step) * jnp.clip((step - start + 1) / steps, 0.0, 1.0)


def joined(old, new, at, rise):
    """`old` before step `at`; from there in `rise` steps from where it stood to `new`.

    >>> schedule = joined(constant(0.0), constant(1.0), at=2, rise=2)
    >>> print(schedule(jnp.arange(5)))
    [0.  0.  0.5 1.  1. ]
    """

    def schedule(step):
        stood = old(max(at - 1, 0))
        share = jnp.clip((jnp.asarray(step, jnp.float32) - at + 1) / rise, 0.0, 1.0)
        between = stood + share * (new(step) - stood)
        later = jnp.where(share < 1, between, new(step))
        return jnp.where(step < at, old(step), later)

    return schedule


def of_run(section, steps, extended=()):
    """`make(section, steps)`, joined to what it was before each extension: dicts of
    at, steps, schedule (a section) and rise, as extend.py keeps them.

    >>> before = {'at': 2, 'steps': 2, 'schedule': 0.0, 'rise': 2}
    >>> print(of_run(1.0, 5, [before])(jnp.arange(5)))
    [0.  0.  0.5 1.  1. ]
    """
    parts = [(was['schedule'], was['steps']) for was in extended]
    made = [make(*part) for part in [*parts, (section, steps)]]
    whole = made[0]
    for was, new in zip(extended, made[1:]):
        whole = joined(whole, new, was['at'], was['rise'])
    return whole


SCHEDULES = {
    'constant': constant,
    'linear': linear,
    'cosine': cosine,
    'wsd': wsd,
    'wsd_twice': wsd_twice,
    'warmup_cosine': warmup_cosine,
}


def _fraction(step, steps):
    return jnp.clip(jnp.asarray(step, jnp.float32) / max(steps, 1), 0.0, 1.0)
