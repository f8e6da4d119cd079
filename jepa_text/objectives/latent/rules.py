"""The rules that weigh two losses: what each of them learns, remembers and says.

    rule           weights of latent and tokens              source
    Fixed          w and 1 - w
    Scheduled      w(step) and 1 - w(step)
    Sigmoid        sigmoid(learned), clipped, and the rest   arXiv 2606.05173
    Softmin        minimise their sum + temperature KL       in closed form
    Normalised     w / mean loss, (1 - w) / mean loss
    GradientRatio  from the ratio of two gradient norms      after arXiv 1711.02257

All are frozen dataclasses without state of their own, after the contract of `Balance`.
What a rule learns is among the parameters (`modules`), what it remembers is in a dict
that the step carries along (`memory`, `update`), and `weights` reads both: pure functions
that can be jitted, float32. Settings out of range raise ValueError (`check`). Rules that
keep running means are a `Running`, what `Sigmoid` learns is a `Weight`. `balance.make`
makes a rule from a section of a config.
"""

import dataclasses
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

# Keys of the memory, beside those of others.
LATENT, TOKENS, SEEN = 'balance_latent', 'balance_tokens', 'balance_seen'

# What a setting may be: in words, and its least and most, both allowed.
JUST_ABOVE_0, JUST_BELOW_1 = 1e-12, 1 - 1e-12
RANGES = {
    **dict.fromkeys(('weight', 'low', 'high'), ('in [0, 1]', 0, 1)),
    **dict.fromkeys(('temperature', 'least', 'ratio'), ('above 0', JUST_ABOVE_0, 1e12)),
    'initial': ('inside (0, 1)', JUST_ABOVE_0, JUST_BELOW_1),
    'momentum': ('in [0, 1)', 0, JUST_BELOW_1),
    'every': ('a whole number, at least 1', 1, 1e9),
}


class Balance:
    """The contract, with the answers of a rule that has only a lambda.

    modules()                 {name: module} that it learns
    memory()                  {name: float32 scalar} before the first step
    weights(apply, params, memory, latent_loss, token_loss, step)
                              (latent_weight, token_weight), float32 scalars;
                              `apply(module, params)` runs one of its modules
    update(memory, observed)  the memory after a step. `observed` has the whole batch's
                              latent_loss and token_loss, and latent_grad_norm and
                              token_grad_norm on the encoder, both of the unweighted
                              losses, NaN in steps that did not measure them. Keys of
                              `memory` that are not this balance's stay as they are.
    every                     steps between its measurements of both norms; 0: none

    No gradient flows through the losses into the weights. Subclasses without interest in
    the losses define mix(apply, params, step), their lambda, instead of `weights`.
    """

    every = 0

    def __post_init__(self):
        rule = type(self).__name__
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for name, value in given.items():
            check(rule, name, value)
        if 'low' in given and not self.low <= self.initial <= self.high:
            raise ValueError(
                f'balance {rule} needs low <= initial <= high; got low={self.low}, '
                f'initial={self.initial}, high={self.high}.'
            )

    def modules(self):
        return {}

    def memory(self):
        return {}

    def weights(self, apply, params, memory, latent_loss, token_loss, step):
        weight = self.mix(apply, params, step)
        return weight, 1 - weight

    def update(self, memory, observed):
        return memory


@dataclasses.dataclass(frozen=True)
class Fixed(Balance):
    """lambda = weight, in [0, 1].

    >>> print(*Fixed(0.25).weights(None, {}, {}, 1.0, 8.0, step=0))
    0.25 0.75
    """

    weight: float

    def mix(self, apply, params, step):
        return jnp.full((), self.weight, jnp.float32)


@dataclasses.dataclass(frozen=True)
class Scheduled(Balance):
    """lambda is a function of the step of the phase.

    >>> print(*Scheduled(lambda step: step / 10).weights(None, {}, {}, 1.0, 8.0, step=5))
    0.5 0.5
    """

    schedule: Callable

    def mix(self, apply, params, step):
        return jnp.asarray(self.schedule(step), jnp.float32)


@dataclasses.dataclass(frozen=True)
class Sigmoid(Balance):
    """lambda = clip(sigmoid(w), low, high), w learned on the loss itself.

    This is arXiv 2606.05173's rule, clamped. It has no optimum inside (0, 1): the
    gradient lambda (1 - lambda) (latent - tokens) always favours the smaller loss, and
    under Adam w(t) is about the sum of the learning rates. Outside the clamp the
    gradient is zero, so lambda comes to rest there, for good. Its steps are those of
    the optimizer times `balance_rate` (optimizers.py), without weight decay.

    >>> def apply(module, params):
    ...     return params[module]['logit']
    >>> rule = Sigmoid(high=0.75)
    >>> for logit in (0.0, 9.0):
    ...     print(*rule.weights(apply, {'balance': {'logit': logit}}, {}, 1.0, 8.0, 0))
    0.5 0.5
    0.75 0.25
    """

    initial: float = 0.5
    low: float = 0.1
    high: float = 0.9

    def modules(self):
        return {'balance': Weight(self.initial)}

    def mix(self, apply, params, step):
        logit = jnp.asarray(apply('balance', params), jnp.float32)
        return jnp.clip(jax.nn.sigmoid(logit), self.low, self.high)


class Weight(nn.Module):
    """One learned scalar, float32: the logit of lambda.

    >>> variables = Weight(initial=0.5).init(jax.random.key(0))
    >>> print(variables['params']['logit'])
    0.0
    """

    initial: float

    def example(self):
        return ()

    @nn.compact
    def __call__(self):
        odds = self.initial / (1 - self.initial)
        return self.param('logit', lambda key: jnp.log(jnp.float32(odds)))


class Running(Balance):
    """Keeps running means of a pair of observed numbers, `watches`, at `momentum`.

    m <- momentum m + (1 - momentum) x, and the same for x = 1: the mean is the ratio, so
    it is right from the first number on (Adam's bias correction). A pair that is not
    finite changes nothing: it was not measured, or the step came to nothing.
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
    >>> print(rule.weights(None, {}, memory, 1.0, 9.0, step=1)[0].round(2))
    0.83
    """

    initial: float = 0.5
    temperature: float = 5.0
    momentum: float = 0.99

    def weights(self, apply, params, memory, latent_loss, token_loss, step):
        latent, tokens = self.means(memory, 0.0, 0.0)
        prior = jnp.log(jnp.float32(self.initial / (1 - self.initial)))
        weight = jax.nn.sigmoid(prior + (tokens - latent) / self.temperature)
        return weight, 1 - weight


@dataclasses.dataclass(frozen=True)
class Normalised(Running):
    """weight / mean(latent) and (1 - weight) / mean(tokens), means over past steps.

    Either loss counts as about its weight, whatever its unit (but in the first step). A
    mean below `least` counts as `least`: a collapsed loss must not gain all the weight.

    >>> rule = Normalised()
    >>> memory = rule.update(rule.memory(), {'latent_loss': 0.25, 'token_loss': 4.0})
    >>> print(*rule.weights(None, {}, memory, 9.0, 9.0, step=1))
    2.0 0.125
    """

    weight: float = 0.5
    momentum: float = 0.99
    least: float = 1e-2

    def weights(self, apply, params, memory, latent_loss, token_loss, step):
        latent, tokens = self.means(memory, 1.0, 1.0)
        return (
            self.weight / jnp.maximum(latent, self.least),
            (1 - self.weight) / jnp.maximum(tokens, self.least),
        )


@dataclasses.dataclass(frozen=True)
class GradientRatio(Running):
    """lambda = ratio t / (ratio t + l), clipped, with l and t the running geometric means
    of the encoder-gradient norms of the latent and the token loss.

    Then |grad lambda latent| / |grad (1 - lambda) tokens| = ratio on the encoder, the
    only place where lambda matters under Adam: heads and predictor see one loss each.
    GradNorm (arXiv 1711.02257) does so by gradient descent; this is the closed form.
    Norms fall by orders of magnitude, so logarithms are averaged: the first, untrained
    one would stand for thousands of steps. Measuring at least `every` steps costs 1.4 /
    `every` (7 %); `momentum` is per measurement, lambda `initial` until there was one.
    `high`: else a latent gradient that vanishes feeds its collapse with all the weight.

    >>> rule = GradientRatio(ratio=1.0)
    >>> norms = {'latent_grad_norm': 3.0, 'token_grad_norm': 1.0}
    >>> memory = rule.update(rule.memory(), norms)
    >>> print(*rule.weights(None, {}, memory, 1.0, 8.0, step=1))
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

    def weights(self, apply, params, memory, latent_loss, token_loss, step):
        # Logarithms that give `initial`, until there are true ones.
        odds = self.initial / (1 - self.initial) / self.ratio
        latent, tokens = self.means(memory, 0.0, jnp.log(jnp.float32(odds)))
        weight = jax.nn.sigmoid(jnp.log(jnp.float32(self.ratio)) + tokens - latent)
        weight = jnp.clip(weight, self.low, self.high)
        return weight, 1 - weight


def check(rule, name, value):
    """Raises ValueError for a value that the setting `name` of a rule cannot have.

    >>> check('Fixed', 'weight', 0.5)
    """
    if name not in RANGES:
        return
    words, least, most = RANGES[name]
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not right or not least <= value <= most or (name == 'every' and value % 1):
        raise ValueError(f'balance {rule}: {name}={value!r} is not {words}.')
