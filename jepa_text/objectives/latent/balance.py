"""Rules that weigh two losses: latent_weight * latent + token_weight * tokens.

    name            rule           weights of latent and tokens
    fixed           Scheduled      w and 1 - w
    schedule        Scheduled      w(step) and 1 - w(step)
    sigmoid         Sigmoid        clipped sigmoid of a learned scalar, and 1 minus it
    gradient_ratio  GradientRatio  from the ratio of two gradient norms

lambda = latent_weight / (latent_weight + token_weight). `make` returns a rule: a frozen
dataclass of pure functions (`Balance`), safe under jit.
"""

import dataclasses

import jax
import jax.numpy as jnp

from jepa_text.models import heads
from jepa_text.objectives.base import share_schedule
from jepa_text.optim import schedules
from jepa_text.settings import ranges, resolve

LATENT, TOKENS, SEEN = 'balance_latent', 'balance_tokens', 'balance_seen'  # memory
# Allowed values of the settings.
RANGES = {
    **dict.fromkeys(('low', 'high'), dict(minimum=0, maximum=1)),
    'ratio': dict(minimum=1e-12, maximum=1e12),
    'initial': dict(minimum=1e-12, maximum=1 - 1e-12),
    'momentum': dict(minimum=0, below=1),
    'every_steps': dict(whole=True, minimum=1),
}


def make(section, steps):
    """Returns the rule of a config section; a number is a fixed lambda.

    `steps` is the length of the phase. A dotted name is that of a module whose `make` is
    called. Raises ValueError for an unknown name or keyword and values out of range.

    >>> print(*make(0.25, steps=100).weights({}, {}, step=0))
    0.25 0.75
    """
    if not ranges.is_section(section):
        section = {'name': 'fixed', 'weight': section}
    keywords = dict(section)
    name = keywords.pop('name', None)
    if isinstance(name, str) and '.' in name:
        make = resolve.make_of('balance', name)
        rule = resolve.call(name, make, keywords, steps=steps)
        if not isinstance(rule, Balance):
            resolve.reject_user_code(name, f'make returned {rule!r}, not a Balance.')
        return rule
    resolve.check_choice('balance', name, RULES)
    given = {'steps': steps} if RULES[name] is Scheduled else {}
    return resolve.call(f'balance {name}', RULES[name], keywords, **given)


class Balance:
    """The interface of a rule, with defaults for a rule that only defines lambda.

    share(params, memory, step)    lambda, a float32 scalar; `params` are by module name
    weights(params, memory, step)  (latent_weight, token_weight)
    modules()                 {name: module} that it learns
    memory()                  {name: float32 scalar} before the first step
    update(memory, observed)  the memory after a step; keys of others stay unchanged.
                              `observed` has latent_loss and token_loss of the whole
                              batch, and latent_grad_norm and token_grad_norm of the
                              unweighted losses on the encoder, NaN if not measured
    every_steps               steps between its measurements of both norms; 0: none

    No gradient flows from the losses into the weights.
    """

    every_steps = 0

    def modules(self):
        return {}

    def memory(self):
        return {}

    def weights(self, params, memory, step):
        latent_weight = self.share(params, memory, step)
        return latent_weight, 1 - latent_weight

    def update(self, memory, observed):
        return memory


def fixed(weight: float):
    """lambda = weight, in [0, 1].

    >>> print(*fixed(0.25).weights({}, {}, step=0))
    0.25 0.75
    """
    ranges.number('balance fixed: weight', weight, minimum=0, maximum=1)
    # It does not depend on the length, so rules of phases of all lengths are equal.
    return Scheduled(weight, steps=1)


def _check(rule):
    """Raises ValueError for settings of a learned or measured rule out of range."""
    for name, value in vars(rule).items():
        if name in RANGES:
            what = f'balance {type(rule).__name__}: {name}'
            ranges.number(what, value, **RANGES[name])
    if not rule.low <= rule.initial <= rule.high:
        raise ValueError(f'balance: {rule!r} needs low <= initial <= high.')


@dataclasses.dataclass(frozen=True)
class Scheduled(Balance):
    """lambda follows the schedule `of`, a section of schedules.py or a number, over the
    `steps` of the phase. Raises ValueError if it leaves [0, 1].

    >>> rule = Scheduled({'name': 'linear', 'start': 0.0, 'end': 1.0}, steps=10)
    >>> print(*rule.weights({}, {}, step=5))
    0.5 0.5
    """

    of: float | dict
    steps: int

    def __post_init__(self):
        share_schedule(self.of, self.steps, 'balance: of')

    def share(self, params, memory, step):
        schedule = schedules.make(self.of, self.steps, 'balance: of')
        return jnp.asarray(schedule(step), jnp.float32)


@dataclasses.dataclass(frozen=True)
class Sigmoid(Balance):
    """lambda = clip(sigmoid(w), low, high), with w learned by gradients of the loss.

    This is the rule of arXiv 2606.05173, clipped. It has no optimum inside (0, 1): the
    gradient lambda (1 - lambda) (latent - tokens) always favors the smaller loss, and
    under Adam w(t) is about the sum of the learning rates. Where the clip is active the
    gradient is zero, so lambda stays there permanently. Its updates are those of the
    optimizer times `balance_lr_multiplier` (optim/adam.py), without weight decay.

    >>> print(*Sigmoid(high=0.75).weights({'balance': {'logit': 9.0}}, {}, step=0))
    0.75 0.25
    """

    initial: float = 0.5
    low: float = 0.1
    high: float = 0.9

    def __post_init__(self):
        _check(self)

    def modules(self):
        return {'balance': heads.Logit(self.initial)}

    def share(self, params, memory, step):
        logit = jnp.asarray(params['balance']['logit'], jnp.float32)
        return jnp.clip(jax.nn.sigmoid(logit), self.low, self.high)


@dataclasses.dataclass(frozen=True)
class GradientRatio(Balance):
    """lambda = ratio t / (ratio t + l), clipped to [low, high].

    l and t are running geometric means of the encoder-gradient norms of the latent and
    the token loss. Thus |grad lambda latent| / |grad (1 - lambda) tokens| = ratio on the
    encoder, the only place where lambda matters under Adam: heads and predictor see only
    one loss each. GradNorm (arXiv 1711.02257) reaches this by gradient descent; this is
    the closed form. Norms fall by orders of magnitude, so logarithms are averaged: else
    the first, untrained norm would dominate for thousands of steps. Measuring costs
    1.4 / `every_steps` of a step (7 %). lambda is `initial` before, and at most `high`: a
    vanishing latent gradient must not accelerate its collapse by getting all weight.

    The means follow m <- momentum m + (1 - momentum) x, divided by the same sum for
    x = 1, so they are unbiased from the first value on (Adam's bias correction). Norms
    that are not finite were not measured and change nothing.

    >>> rule = GradientRatio(ratio=1.0)
    >>> norms = {'latent_grad_norm': 3.0, 'token_grad_norm': 1.0}
    >>> memory = rule.update(rule.memory(), norms)
    >>> print(*rule.weights({}, memory, step=1))
    0.25 0.75
    """

    ratio: float = 1.0
    initial: float = 0.5
    momentum: float = 0.5
    low: float = 0.01
    high: float = 0.9
    every_steps: int = 20

    def __post_init__(self):
        _check(self)

    def memory(self):
        return {name: jnp.zeros((), jnp.float32) for name in (LATENT, TOKENS, SEEN)}

    def update(self, memory, observed):
        norms = [observed[name] for name in ('latent_grad_norm', 'token_grad_norm')]
        new = [jnp.log(jnp.maximum(norm, 1e-12)) for norm in norms]
        new = jax.lax.stop_gradient([jnp.asarray(value, jnp.float32) for value in new])
        # A microbatch without latents, or without masks, says nothing.
        measured = jnp.isfinite(new[0]) & jnp.isfinite(new[1])
        measured &= (norms[0] > 0) & (norms[1] > 0)
        moved = {}
        for name, value in zip((LATENT, TOKENS, SEEN), (*new, 1.0), strict=True):
            mean = self.momentum * memory[name] + (1 - self.momentum) * value
            moved[name] = jnp.where(measured, mean, memory[name])
        return {**memory, **moved}

    def share(self, params, memory, step):
        is_new = memory[SEEN] == 0
        seen = jnp.where(is_new, 1.0, memory[SEEN])
        # Default logarithms that give `initial` before the first measurement.
        odds = jnp.log(jnp.float32(self.initial / (1 - self.initial) / self.ratio))
        latent, tokens = (
            jax.lax.stop_gradient(jnp.where(is_new, first, memory[name] / seen))
            for name, first in ((LATENT, 0.0), (TOKENS, odds))
        )
        weight = jax.nn.sigmoid(jnp.log(jnp.float32(self.ratio)) + tokens - latent)
        return jnp.clip(weight, self.low, self.high)


RULES = {
    'fixed': fixed,
    'schedule': Scheduled,
    'sigmoid': Sigmoid,
    'gradient_ratio': GradientRatio,
}
