"""How two losses are weighed: latent_weight * latent + token_weight * tokens.

    name            rule           weights of latent and tokens
    fixed           Fixed          w and 1 - w
    schedule        Scheduled      w(step) and 1 - w(step)
    sigmoid         Sigmoid        sigmoid(learned), clipped, and the rest
    softmin         Softmin        minimize their sum + temperature KL
    normalized      Normalized     w / mean loss, (1 - w) / mean loss
    gradient_ratio  GradientRatio  from the ratio of two gradient norms

lambda = latent_weight / (latent_weight + token_weight). `make` gives a rule: a frozen
dataclass of pure functions (`Balance`) that can be jitted. Some are `Running`.
"""

import dataclasses

import jax
import jax.numpy as jnp

from jepa_text.config import ranges, resolve
from jepa_text.models import heads
from jepa_text.optim import schedules

LATENT, TOKENS, SEEN = 'balance_latent', 'balance_tokens', 'balance_seen'  # memory
# What a setting may be, in words; its least and its most.
RANGES = {
    **dict.fromkeys(('weight', 'low', 'high'), ('in [0, 1]', 0, 1)),
    **dict.fromkeys(('temperature', 'minimum', 'ratio'), ('above 0', 1e-12, 1e12)),
    'initial': ('inside (0, 1)', 1e-12, 1 - 1e-12),
    'momentum': ('in [0, 1)', 0, 1 - 1e-12),
    'every': ('a whole number, at least 1', 1, 1e9),
}


def make(section, steps):
    """The rule that a section names, or a fixed lambda; `steps` are those of the phase.
    Raises ValueError for an unknown name or keyword, and for values out of range.
    >>> print(*make(0.25, steps=100).weights({}, {}, step=0))
    0.25 0.75
    """
    if not ranges.is_section(section):
        section = {'name': 'fixed', 'weight': section}
    keywords = dict(section)
    name = keywords.pop('name', None)
    if isinstance(name, str) and '.' in name:
        return resolve.call(name, resolve.own('balance', name), keywords, steps=steps)
    if not isinstance(name, str) or name not in RULES:
        known = ', '.join(RULES)
        raise ValueError(f'balance {name!r} does not exist; there are: {known}.')
    given = {'steps': steps} if name == 'schedule' else {}
    return resolve.call(f'balance {name}', RULES[name], keywords, **given)


class Balance:
    """The contract, with the answers of a rule that has only a lambda.

    share(params, memory, step)    lambda, a float32 scalar; `params` has those of its
                                   modules by name
    weights(params, memory, step)  (latent_weight, token_weight)
    modules()                 {name: module} that it learns
    memory()                  {name: float32 scalar} before the first step
    update(memory, observed)  the memory after a step, in which others' keys stay as they
                              are. `observed` has the whole batch's latent_loss and
                              token_loss, and latent_grad_norm and token_grad_norm on the
                              encoder, of the unweighted losses, NaN where not measured
    every                     steps between its measurements of both norms; 0: none

    No gradient flows through the losses into the weights.
    """

    every = 0

    def __post_init__(self):
        rule = type(self).__name__
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for name, value in given.items():
            _check(rule, name, value)
        if 'low' in given and not self.low <= self.initial <= self.high:
            got = f'low={self.low}, initial={self.initial}, high={self.high}'
            raise ValueError(f'balance {rule} needs low <= initial <= high; got {got}.')

    def modules(self):
        return {}

    def memory(self):
        return {}

    def weights(self, params, memory, step):
        share = self.share(params, memory, step)
        return share, 1 - share

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
    """lambda is a schedule over the `steps` of the phase: a section of schedules.py, or a
    number. Raises ValueError if it leaves [0, 1] at the start, middle or end.

    >>> rule = Scheduled({'name': 'linear', 'start': 0.0, 'end': 1.0}, steps=10)
    >>> print(*rule.weights({}, {}, step=5))
    0.5 0.5
    """

    of: float | dict
    steps: int

    def __post_init__(self):
        for step in (0, self.steps // 2, self.steps):
            share = float(self.share({}, {}, step))
            _check(f'schedule at step {step}', 'weight', share)

    def share(self, params, memory, step):
        schedule = schedules.make(self.of, self.steps, 'balance: of')
        return jnp.asarray(schedule(step), jnp.float32)


@dataclasses.dataclass(frozen=True)
class Sigmoid(Balance):
    """lambda = clip(sigmoid(w), low, high), w learned on the loss itself.

    This is arXiv 2606.05173's rule, clamped. It has no optimum inside (0, 1): the
    gradient lambda (1 - lambda) (latent - tokens) always favors the smaller loss, and
    under Adam w(t) is about the sum of the learning rates. Outside the clamp the
    gradient is zero, so lambda comes to rest there, for good. Its steps are those of
    the optimizer times `balance_lr_multiplier` (optimizers.py), without weight decay.

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
    """Keeps running means of a pair of observed numbers, `watches`, at `momentum`.

    m <- momentum m + (1 - momentum) x, and the same for x = 1: the mean is the ratio, so
    it is right from the first number on (Adam's bias correction). What was not measured,
    and so is not finite, changes nothing.
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
        """Both running means; until something was seen, `latent` and `tokens`, the same
        for all parts of a batch."""
        is_new = memory[SEEN] == 0
        seen = jnp.where(is_new, 1.0, memory[SEEN])
        return tuple(
            jax.lax.stop_gradient(jnp.where(is_new, first, memory[name] / seen))
            for name, first in ((LATENT, latent), (TOKENS, tokens))
        )


@dataclasses.dataclass(frozen=True)
class Softmin(Running):
    """lambda = sigmoid(logit(initial) + (tokens - latent) / temperature).

    The minimum over lambda of lambda latent + (1 - lambda) tokens + temperature
    KL(lambda || initial): an optimum inside (0, 1), which w of `Sigmoid` lacks. The
    losses are running means (`momentum=0`: the last step's); `initial` before there are.
    At temperature 5 tokens 8 above latent have lambda 0.83, and 2 above it 0.6.

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
    """weight / mean(latent) and (1 - weight) / mean(tokens), means over past steps.

    Either loss counts as about its weight, whatever its unit (but in the first step), but
    below `minimum`: a collapsed loss must not gain all the weight.

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
        return (
            self.weight / jnp.maximum(latent, self.minimum),
            (1 - self.weight) / jnp.maximum(tokens, self.minimum),
        )


@dataclasses.dataclass(frozen=True)
class GradientRatio(Running):
    """lambda = ratio t / (ratio t + l), clipped, with l and t the running geometric means
    of the encoder-gradient norms of the latent and the token loss.

    Then |grad lambda latent| / |grad (1 - lambda) tokens| = ratio on the encoder, the
    only place where lambda matters under Adam: heads and predictor see one loss each.
    GradNorm (arXiv 1711.02257) does so by gradient descent; this is the closed form.
    Norms fall by orders of magnitude, so logarithms are averaged: the first, untrained
    one would stand for thousands of steps. Measuring costs 1.4 / `every` (7 %); lambda is
    `initial` before, and at most `high`: a latent gradient that vanishes must not feed
    its collapse with all the weight.

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
        # Logarithms that give `initial`, until there are true ones.
        odds = self.initial / (1 - self.initial) / self.ratio
        latent, tokens = self.means(memory, 0.0, jnp.log(jnp.float32(odds)))
        weight = jax.nn.sigmoid(jnp.log(jnp.float32(self.ratio)) + tokens - latent)
        return jnp.clip(weight, self.low, self.high)


def _check(rule, name, value):
    """Raises ValueError for a value that the setting `name` of a rule cannot have."""
    if name not in RANGES:
        return
    words, minimum, maximum = RANGES[name]
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not right or not minimum <= value <= maximum or (name == 'every' and value % 1):
        raise ValueError(f'balance {rule}: {name}={value!r} is not {words}.')


RULES = {
    'fixed': Fixed,
    'schedule': Scheduled,
    'sigmoid': Sigmoid,
    'softmin': Softmin,
    'normalized': Normalized,
    'gradient_ratio': GradientRatio,
}
