"""Rules that weigh two losses: latent_weight * latent + token_weight * tokens.

    name            rule           weights of latent and tokens
    fixed           Fixed          w and 1 - w
    schedule        Scheduled      w(step) and 1 - w(step)
    sigmoid         Sigmoid        clipped sigmoid of a learned scalar, and 1 minus it
    softmin         Softmin        minimize the weighted sum + temperature KL
    normalized      Normalized     w / mean loss, (1 - w) / mean loss
    gradient_ratio  GradientRatio  from the ratio of two gradient norms

lambda = latent_weight / (latent_weight + token_weight). `make` returns a rule: a frozen
dataclass of pure functions (`Balance`), safe under jit; some are `Running` means.
"""

import dataclasses

import jax
import jax.numpy as jnp

from jepa_text.config import own_code, ranges, resolve
from jepa_text.models import heads
from jepa_text.objectives.base import share_schedule
from jepa_text.optim import schedules

LATENT, TOKENS, SEEN = 'balance_latent', 'balance_tokens', 'balance_seen'  # memory
# Allowed values of the settings.
RANGES = {
    **dict.fromkeys(('weight', 'low', 'high'), dict(minimum=0, maximum=1)),
    **dict.fromkeys(
        ('temperature', 'minimum', 'ratio'), dict(minimum=1e-12, maximum=1e12)
    ),
    'initial': dict(minimum=1e-12, maximum=1 - 1e-12),
    'momentum': dict(minimum=0, below=1),
    'every': dict(whole=True, minimum=1),
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
            own_code.reject(name, f'make returned {rule!r}, not a Balance.')
        return rule
    if not isinstance(name, str) or name not in RULES:
        raise ValueError(
            f'balance {name!r} does not exist; there are: {", ".join(RULES)}.'
        )
    given = {'steps': steps} if name == 'schedule' else {}
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
    every                     steps between its measurements of both norms; 0: none

    No gradient flows from the losses into the weights.
    """

    every = 0

    def __post_init__(self):
        for name, value in vars(self).items():
            if name in RANGES:
                what = f'balance {type(self).__name__}: {name}'
                ranges.number(what, value, **RANGES[name])
        if hasattr(self, 'low') and not self.low <= self.initial <= self.high:
            raise ValueError(f'balance: {self!r} needs low <= initial <= high.')

    def modules(self):
        return {}

    def memory(self):
        return {}

    def weights(self, params, memory, step):
        latent_weight = self.share(params, memory, step)
        return latent_weight, 1 - latent_weight

    def update(self, memory, observed):
        return memory


@dataclasses.dataclass(frozen=True)
class Fixed(Balance):
    """lambda = weight, in [0, 1].

    >>> print(*Fixed(0.25).weights({}, {}, step=0))
    0.25 0.75
    """

    weight: float

    def share(self, params, memory, step):
        return jnp.full((), self.weight, jnp.float32)


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
    optimizer times `balance_lr_multiplier` (optimizers.py), without weight decay.

    >>> print(*Sigmoid(high=0.75).weights({'balance': {'logit': 9.0}}, {}, step=0))
    0.75 0.25
    """

    initial: float = 0.5
    low: float = 0.1
    high: float = 0.9

    def modules(self):
        return {'balance': heads.Logit(self.initial)}

    def share(self, params, memory, step):
        logit = jnp.asarray(params['balance']['logit'], jnp.float32)
        return jnp.clip(jax.nn.sigmoid(logit), self.low, self.high)


class Running(Balance):
    """Base of rules with running means of two observed values, named by `watches`.

    With `momentum`: m <- momentum m + (1 - momentum) x, and the same for x = 1; the mean
    is the ratio of the two, so it is unbiased from the first value on (Adam's bias
    correction). Values that are not finite were not measured and change nothing.
    """

    watches = ('latent_loss', 'token_loss')

    def memory(self):
        return {name: jnp.zeros((), jnp.float32) for name in (LATENT, TOKENS, SEEN)}

    def update(self, memory, observed):
        new = [jnp.asarray(observed[name], jnp.float32) for name in self.watches]
        new = jax.lax.stop_gradient(new)
        measured = jnp.isfinite(new[0]) & jnp.isfinite(new[1])
        moved = {}
        for name, value in zip((LATENT, TOKENS, SEEN), (*new, 1.0), strict=True):
            mean = self.momentum * memory[name] + (1 - self.momentum) * value
            moved[name] = jnp.where(measured, mean, memory[name])
        return {**memory, **moved}

    def means(self, memory, latent, tokens):
        """Returns both running means, the same for all parts of a batch; `latent` and
        `tokens` before the first observation."""
        is_new = memory[SEEN] == 0
        seen = jnp.where(is_new, 1.0, memory[SEEN])
        return tuple(
            jax.lax.stop_gradient(jnp.where(is_new, first, memory[name] / seen))
            for name, first in ((LATENT, latent), (TOKENS, tokens))
        )


@dataclasses.dataclass(frozen=True)
class Softmin(Running):
    """lambda = sigmoid(logit(initial) + (tokens - latent) / temperature).

    This minimizes lambda latent + (1 - lambda) tokens + temperature KL(lambda || initial)
    over lambda: an optimum inside (0, 1), which w of `Sigmoid` lacks. The losses are
    running means (`momentum=0`: of the last step); lambda is `initial` before the first.
    At temperature 5, lambda is 0.83 if tokens is 8 above latent, and 0.6 if 2 above.

    >>> rule = Softmin(momentum=0.0)
    >>> memory = rule.update(rule.memory(), {'latent_loss': 1.0, 'token_loss': 9.0})
    >>> print(rule.share({}, memory, step=1).round(2))
    0.83
    """

    initial: float = 0.5
    temperature: float = 5.0
    momentum: float = 0.99

    def share(self, params, memory, step):
        latent, tokens = self.means(memory, 0.0, 0.0)
        prior = jnp.log(jnp.float32(self.initial / (1 - self.initial)))
        return jax.nn.sigmoid(prior + (tokens - latent) / self.temperature)


@dataclasses.dataclass(frozen=True)
class Normalized(Running):
    """weight / mean(latent) and (1 - weight) / mean(tokens), with means over past steps.

    Each loss contributes about its weight, whatever its scale, except in the first step
    and below `minimum`: a collapsed loss must not get all the weight.

    >>> rule = Normalized()
    >>> memory = rule.update(rule.memory(), {'latent_loss': 0.25, 'token_loss': 4.0})
    >>> print(*rule.weights({}, memory, step=1))
    2.0 0.125
    """

    weight: float = 0.5
    momentum: float = 0.99
    minimum: float = 1e-2

    def weights(self, params, memory, step):
        latent, tokens = self.means(memory, 1.0, 1.0)
        latent_weight = self.weight / jnp.maximum(latent, self.minimum)
        return latent_weight, (1 - self.weight) / jnp.maximum(tokens, self.minimum)


@dataclasses.dataclass(frozen=True)
class GradientRatio(Running):
    """lambda = ratio t / (ratio t + l), clipped to [low, high].

    l and t are running geometric means of the encoder-gradient norms of the latent and
    the token loss. Thus |grad lambda latent| / |grad (1 - lambda) tokens| = ratio on the
    encoder, the only place where lambda matters under Adam: heads and predictor see only
    one loss each. GradNorm (arXiv 1711.02257) reaches this by gradient descent; this is
    the closed form. Norms fall by orders of magnitude, so logarithms are averaged: else
    the first, untrained norm would dominate for thousands of steps. Measuring costs
    1.4 / `every` of a step (7 %). lambda is `initial` before that, and at most `high`:
    a vanishing latent gradient must not accelerate its collapse by getting all weight.

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
    every: int = 20
    watches = ('latent_grad_norm', 'token_grad_norm')

    def update(self, memory, observed):
        logs = {k: jnp.log(jnp.maximum(observed[k], 1e-12)) for k in self.watches}
        return super().update(memory, observed | logs)

    def share(self, params, memory, step):
        # Default logarithms that give `initial` before the first measurement.
        odds = self.initial / (1 - self.initial) / self.ratio
        latent, tokens = self.means(memory, 0.0, jnp.log(jnp.float32(odds)))
        weight = jax.nn.sigmoid(jnp.log(jnp.float32(self.ratio)) + tokens - latent)
        return jnp.clip(weight, self.low, self.high)


RULES = {
    'fixed': Fixed,
    'schedule': Scheduled,
    'sigmoid': Sigmoid,
    'softmin': Softmin,
    'normalized': Normalized,
    'gradient_ratio': GradientRatio,
}
