"""step -> scalar: learning rates, momenta, weights. All are jit-safe."""

import inspect

import jax.numpy as jnp


def make(section, steps):
    """The function that a config section names: `{'name': 'wsd', 'peak': 3e-3, ...}`.

    A plain number is a constant. `steps` is the length of the run, for schedules that
    end with it. Raises ValueError for an unknown name or keyword.
    """
    if isinstance(section, int | float):
        return constant(float(section))
    keywords = dict(section)
    name = keywords.pop('name', None)
    if name not in SCHEDULES:
        known = ', '.join(SCHEDULES)
        raise ValueError(f'schedule {name!r} does not exist; there are: {known}.')
    parameters = inspect.signature(SCHEDULES[name]).parameters
    if 'steps' in parameters:
        keywords.setdefault('steps', steps)
    for key in keywords:
        if key not in parameters:
            raise ValueError(
                f'schedule {name!r} does not take {key!r}; it takes: '
                f'{", ".join(parameters)}.'
            )
    return SCHEDULES[name](**keywords)


def constant(value):
    """value, at every step."""
    return lambda step: jnp.full((), value, jnp.float32)


def linear(start, end, steps):
    """From `start` at step 0 to `end` at step `steps`, and `end` after that."""
    return lambda step: start + (end - start) * _fraction(step, steps)


def cosine(start, end, steps):
    """Half a cosine from `start` to `end` over `steps`."""
    return lambda step: (
        end + (start - end) * 0.5 * (1 + jnp.cos(jnp.pi * _fraction(step, steps)))
    )


def wsd(peak, warmup, decay, steps):
    """Warm-up, stable, decay, exactly as arXiv 2507.00994 trained (section 2.3).

    peak * (k + 1) / warmup for k < warmup; peak * (1 - (k - (steps - decay) + 1) /
    decay) in the last `decay` steps, so that the last step has rate 0; else `peak`.
    `warmup` and `decay` are steps, or fractions of `steps` when below 1.
    """
    warmup, decay = _steps(warmup, steps), _steps(decay, steps)
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


def warmup_cosine(peak, warmup, steps, end=0.0):
    """Linear warm-up to `peak`, then half a cosine to `end` at the last step."""
    warmup = _steps(warmup, steps)
    fall = cosine(peak, end, max(steps - warmup, 1))

    def schedule(step):
        rising = peak * (jnp.asarray(step, jnp.float32) + 1) / max(warmup, 1)
        return jnp.where(step < warmup, rising, fall(step - warmup))

    return schedule


def rewarmed(schedule, start, steps):
    """`schedule`, but rising linearly from 0 in the `steps` after step `start`."""
    if not steps:
        return schedule
    return lambda step: schedule(step) * jnp.clip((step - start + 1) / steps, 0.0, 1.0)


SCHEDULES = {
    'constant': constant,
    'linear': linear,
    'cosine': cosine,
    'wsd': wsd,
    'warmup_cosine': warmup_cosine,
}


def _fraction(step, steps):
    return jnp.clip(jnp.asarray(step, jnp.float32) / max(steps, 1), 0.0, 1.0)


def _steps(value, steps):
    return round(value * steps) if 0 < value < 1 else int(value)
