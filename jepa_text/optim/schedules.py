"""Schedules of learning rates, momenta and weights: functions of the step.

    constant       one value
    linear         linear from start to end
    cosine         half a cosine from start to end
    wsd            warm-up, stable, decay to 0
    wsd_twice      wsd twice, for a run that continues after its decay
    warmup_cosine  warm-up, then half a cosine

Each returns a function that maps the step, an integer or float scalar, to a float32
scalar: pure, stateless, safe under jit and vmap. `make` builds one from a config section,
in which each length may be given as a fraction of `steps`, by default those of the run:
`warmup_fraction` for `warmup_steps`.
"""

import inspect

import jax
import jax.numpy as jnp

from jepa_text.settings import ranges, resolve


def make(section, steps, what='schedule'):
    """Returns the schedule of a config section: `{'name': 'wsd', 'peak': 3e-3, ...}`.

    A plain number gives a constant schedule. `steps` is the length of the run, for
    schedules that end with it; `what` names the section in error messages. A name with a
    dot is that of the user's module, whose `make` is called. Raises ValueError for an
    unknown name or keyword, or a number out of range.

    >>> schedule = make({'name': 'linear', 'start': 1.0, 'end': 0.0}, steps=10)
    >>> print(schedule(0), schedule(5), schedule(10), make(0.9, steps=10)(3))
    1.0 0.5 0.0 0.9
    """
    if not ranges.is_section(section):
        ranges.number(what, section, minimum=0)
        return constant(float(section))
    keywords = {key: value for key, value in section.items() if value is not None}
    name = keywords.pop('name', None)
    if isinstance(name, str) and '.' in name:
        schedule = resolve.call(name, resolve.make_of(what, name), keywords, steps=steps)
        _check_own(name, schedule)
        return schedule
    resolve.check_choice(what, name, SCHEDULES)
    parameters = inspect.signature(SCHEDULES[name]).parameters
    known = {*parameters, *map(ranges.other_length, parameters)} - {None, 'fraction'}
    for key in keywords.keys() - known:
        near = resolve.nearest(key, known)
        raise ValueError(f'{what} {name!r} does not take {key!r}.{near}')
    own = keywords.get('steps')
    total = own if isinstance(own, int) else steps
    keywords = ranges.in_steps(f'{what} {name!r}', keywords, total)
    if 'steps' in parameters:
        keywords.setdefault('steps', steps)
    for key, value in keywords.items():
        whole = key.endswith('steps')
        maximum = {'maximum': ranges.MAX_INT} if isinstance(value, int) else {}
        ranges.number(f'{what} {name!r}: {key}', value, whole, minimum=0, **maximum)
    return resolve.call(f'{what} {name!r}', SCHEDULES[name], keywords)


def _check_own(name, schedule):
    """Traces a schedule of a user's module; raises UserCodeError for anything else."""
    if not callable(schedule):
        resolve.reject_user_code(
            name, f'make returned {schedule!r}, not a function of the step.'
        )
    with resolve.user_faults([name]):
        value = jax.eval_shape(schedule, jax.ShapeDtypeStruct((), jnp.int32))
        if getattr(value, 'shape', None) != ():
            resolve.reject_user_code(
                name, f'the value at a step is {value}, not a scalar.'
            )


def constant(value):
    """`value` at each step.

    >>> print(constant(0.5)(7))
    0.5
    """
    return lambda step: jnp.full((), value, jnp.float32)


def linear(start, end, steps):
    """start + (end - start) * step / steps up to step `steps`, then `end`.

    arXiv 2606.05173 increases the EMA momentum like this, from 0.996 to 1.

    >>> print(linear(0.0, 1.0, steps=4)(jnp.arange(6)))
    [0.   0.25 0.5  0.75 1.   1.  ]
    """
    return lambda step: start + (end - start) * _fraction(step, steps)


def cosine(start, end, steps):
    """end + (start - end) (1 + cos(pi step / steps)) / 2 up to step `steps`, then `end`.

    Half a period of the cosine of SGDR (arXiv 1608.03983, equation 5).

    >>> print(cosine(1.0, 0.0, steps=2)(jnp.arange(4)).round(4))
    [1.  0.5 0.  0. ]
    """
    return lambda step: (
        end + (start - end) * 0.5 * (1 + jnp.cos(jnp.pi * _fraction(step, steps)))
    )


def wsd(peak, warmup_steps, decay_steps, steps):
    """Warm-up, stable, decay, exactly as trained by arXiv 2507.00994 (section 2.3).

    peak * (k + 1) / warmup for k < warmup; peak * (1 - (k - (steps - decay) + 1) / decay)
    in the last `decay` steps, so that the last step has rate 0; `peak` in between. Raises
    ValueError if both exceed `steps` together.

    >>> print(wsd(1.0, warmup_steps=2, decay_steps=4, steps=8)(jnp.arange(8)))
    [0.5  1.   1.   1.   0.75 0.5  0.25 0.  ]
    """
    warmup, decay = int(warmup_steps), int(decay_steps)
    if warmup + decay > steps:
        raise ValueError(
            f'warmup ({warmup}) + decay ({decay}) exceed the {steps} steps of the run. '
            'Shorten them or train longer.'
        )

    def schedule(step):
        k = jnp.asarray(step, jnp.float32)
        rising = (k + 1) / max(warmup, 1)
        falling = 1 - (k - (steps - decay) + 1) / max(decay, 1)
        scale = jnp.where(k < warmup, rising, 1.0)
        scale = jnp.where((k >= steps - decay) & (decay > 0), falling, scale)
        return peak * jnp.clip(scale, 0.0, 1.0)

    return schedule


def wsd_twice(peak, warmup_steps, decay_steps, first_steps, steps):
    """`wsd` over the first steps, then another, without a warm-up, over the rest.

    This is continued pretraining of a decayed model in one run: after its decay to 0 the
    rate returns to the peak at once. Raises ValueError unless `first_steps` lies within
    the run.

    >>> schedule = wsd_twice(1.0, warmup_steps=1, decay_steps=2, first_steps=4, steps=8)
    >>> print(schedule(jnp.arange(8)))
    [1.  1.  0.5 0.  1.  1.  0.5 0. ]
    """
    first = int(first_steps)
    if not 0 < first < steps:
        raise ValueError(f'wsd_twice: first_steps={first} must be between 0 and {steps}.')
    before = wsd(peak, warmup_steps, decay_steps, first)
    after = wsd(peak, 0, decay_steps, steps - first)
    return lambda step: jnp.where(step < first, before(step), after(step - first))


def warmup_cosine(peak, warmup_steps, steps, end=0.0):
    """peak * (k + 1) / warmup for k < warmup, then half a cosine to `end` at `steps`.

    Raises ValueError unless the warm-up ends before the run does.

    >>> schedule = warmup_cosine(1.0, warmup_steps=2, steps=6)
    >>> print(schedule(jnp.array([0, 1, 2, 4, 6])).round(4))
    [0.5 1.  1.  0.5 0. ]
    """
    warmup = int(warmup_steps)
    if warmup >= steps:
        raise ValueError(
            f'warmup ({warmup}) takes all {steps} steps of the run. Shorten it or train '
            'longer.'
        )
    falling = cosine(peak, end, max(steps - warmup, 1))

    def schedule(step):
        rising = peak * (jnp.asarray(step, jnp.float32) + 1) / max(warmup, 1)
        return jnp.where(step < warmup, rising, falling(step - warmup))

    return schedule


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
