"""How two losses are weighed: lambda * latent + (1 - lambda) * tokens.

A balance is a frozen dataclass with `modules()` (what it learns, if anything) and
`weight(apply, params, step) -> lambda`.
"""

import dataclasses
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from jepa_text import schedules


def make(section, steps):
    """The rule that a section names: fixed, schedule or sigmoid; a number is fixed."""
    if isinstance(section, int | float):
        section = {'name': 'fixed', 'weight': section}
    keywords = dict(section)
    name = keywords.pop('name', None)
    if name == 'schedule':
        return Scheduled(schedules.make(keywords.pop('of'), steps), **keywords)
    if name not in RULES:
        known = ', '.join([*RULES, 'schedule'])
        raise ValueError(f'balance {name!r} does not exist; there are: {known}.')
    rule = RULES[name](**keywords)
    return rule


@dataclasses.dataclass(frozen=True)
class Fixed:
    """lambda is a number."""

    weight_: float

    def modules(self):
        return {}

    def weight(self, apply, params, step):
        return jnp.full((), self.weight_, jnp.float32)


@dataclasses.dataclass(frozen=True)
class Scheduled:
    """lambda is a function of the step."""

    schedule: Callable

    def modules(self):
        return {}

    def weight(self, apply, params, step):
        return jnp.asarray(self.schedule(step), jnp.float32)


@dataclasses.dataclass(frozen=True)
class Sigmoid:
    """lambda = clip(sigmoid(w), low, high), w learned on the loss itself.

    This is arXiv 2606.05173's rule, clamped. It has no optimum inside (0, 1): the
    gradient lambda (1 - lambda) (latent - tokens) always favours the smaller loss, and
    under Adam w(t) is about the sum of the learning rates. Outside the clamp the
    gradient is zero, so lambda comes to rest there.
    """

    initial: float = 0.5
    low: float = 0.1
    high: float = 0.9

    def __post_init__(self):
        if not 0 <= self.low <= self.initial <= self.high <= 1 or self.initial in (0, 1):
            raise ValueError(
                f'balance sigmoid needs 0 <= low <= initial <= high <= 1 with initial '
                f'inside (0, 1); got low={self.low}, initial={self.initial}, '
                f'high={self.high}.'
            )

    def modules(self):
        return {'balance': Weight(self.initial)}

    def weight(self, apply, params, step):
        return jnp.clip(jax.nn.sigmoid(apply('balance', params)), self.low, self.high)


class Weight(nn.Module):
    """One learned scalar, the logit of lambda."""

    initial: float

    def example(self):
        return ()

    @nn.compact
    def __call__(self):
        odds = self.initial / (1 - self.initial)
        return self.param('logit', lambda key: jnp.log(jnp.float32(odds)))


def fixed(weight):
    """lambda = weight, in [0, 1]."""
    if not 0 <= weight <= 1:
        raise ValueError(f'balance fixed: weight={weight} is outside [0, 1].')
    return Fixed(float(weight))


RULES = {'fixed': fixed, 'sigmoid': Sigmoid}
