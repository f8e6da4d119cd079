"""FLOPs of a training step, counted in its jaxpr.

A multiply-add of a matrix product counts as two FLOPs. Counted are the kernels of all
modules, the scores and values of attention, the LM head, the predictor, and the forward
pass of the target encoder. Elementwise operations (norms, softmax, rotary embeddings,
optimizer) are not counted.

    model    `Count.parts`: every product once, without what rematerialization repeats;
             for attention, only what its mask allows. This is the numerator of MFU (PaLM,
             arXiv 2204.02311, appendix B), except that causal attention counts half,
             while PaLM counts all of it. The documents of a row are not distinguished.
             For padding, multiply by the share of real tokens.
    program  `Count.program`: all products, with the masked half of attention;
             `products` without those of attention.

What a jaxpr does not contain is given by named scopes: the part of the model, the share
of attention that is visible (`attention`), and the number of layers of each kind
(`layer_kinds`).
"""

import dataclasses
import itertools
import math
import re

import jax
from jax.extend.core import jaxprs_in_params

REMAT = 'rematted_computation'  # jax's name for what is computed again
_SHARES = re.compile(r'(counted|attended)_([\d.e-]+)')
_KINDS = re.compile(r'kinds_([\d_]+)')
# Scopes that are not parts of the model.
_NO_PART = ('', 'loss', REMAT)


@dataclasses.dataclass(frozen=True)
class Count:
    """FLOPs of a function.

    parts      {scope: FLOPs of the model}
    program    FLOPs of the whole program
    products   of them, those that are not attention
    attention  FLOPs of the model in attention
    """

    parts: dict[str, float]
    program: float
    products: float
    attention: float

    @property
    def model(self):
        """FLOPs of the model."""
        return sum(self.parts.values())


def count(function, *inputs):
    """Returns the Count of a function of real or abstract arrays, without running it.

    The body of a loop counts once per iteration; of several branches, the most expensive
    one counts. Handwritten kernels (Pallas, custom calls) are not counted. Raises
    ValueError for a loop with an unknown number of iterations.
    """
    jaxpr = jax.make_jaxpr(function)(*inputs).jaxpr
    model, program = (_count(jaxpr, '', is_model) for is_model in (True, False))
    by_part = ({part: flops} for (part, _), flops in model.items())
    return Count(
        parts=_weighted_sum(by_part, itertools.repeat(1)),
        program=sum(program.values()),
        products=sum(flops for (_, attends), flops in program.items() if not attends),
        attention=sum(flops for (_, attends), flops in model.items() if attends),
    )


def masked(share):
    """Returns a scope for products of which a mask leaves only this share."""
    return jax.named_scope(f'counted_{share}')


def attention(share):
    """Returns a scope for the products of attention; its mask leaves this share."""
    return jax.named_scope(f'attended_{share}')


def visible(length, causal, window=None):
    """Returns the mean number of positions that one position of a row attends to.

    >>> visible(4, causal=False), visible(4, causal=True), visible(4, True, window=1)
    (4.0, 2.5, 1.75)
    """
    reach = length - 1 if window is None else min(window, length - 1)
    # On one side, minus what exceeds the end of the row.
    side = reach - reach * (reach + 1) / (2 * length)
    return 1 + side * (1 if causal else 2)


def layer_kinds(kinds):
    """Returns a scope for a scan over layers.

    `kinds` has the index of the branch that each layer takes.
    """
    counts = [list(kinds).count(kind) for kind in range(max(kinds) + 1)]
    return jax.named_scope('kinds_' + '_'.join(map(str, counts)))


def _count(jaxpr, scope, is_model):
    """Returns {(part, whether it is attention): FLOPs} of a jaxpr in a scope."""
    counts = (_count_equation(equation, scope, is_model) for equation in jaxpr.eqns)
    return _weighted_sum(counts, itertools.repeat(1))


def _weighted_sum(counts, weights):
    """Returns the weighted sum of several {key: FLOPs}."""
    total = {}
    for count, weight in zip(counts, weights):
        for key, flops in count.items():
            total[key] = total.get(key, 0) + weight * flops
    return total


def _count_equation(equation, scope, is_model):
    """Returns the same of an operation, including the jaxprs inside it."""
    name = equation.primitive.name
    inner = [] if name == 'pallas_call' else list(jaxprs_in_params(equation.params))
    if name != 'dot_general' and not inner:
        return {}
    scope = f'{scope}/{equation.source_info.name_stack}'
    if is_model and REMAT in scope:
        return {}
    if name == 'dot_general':
        shares = _SHARES.findall(scope)
        counted = math.prod(float(share) for _, share in shares) if is_model else 1
        attends = any(kind == 'attended' for kind, _ in shares)
        return {(_part(scope), attends): _product(equation) * counted}
    counts = [_count(jaxpr, scope, is_model) for jaxpr in inner]
    if name == 'while' and any(counts):
        raise ValueError(
            'flops.count: a while loop with matrix products has an unknown number of '
            'iterations; give jax.lax.fori_loop whole numbers as bounds, or use '
            'jax.lax.scan.'
        )
    if name == 'cond':
        return _weighted_sum(counts, _branch_weights(counts, scope, is_model))
    times = equation.params['length'] if name == 'scan' else 1
    if name == 'shard_map':
        times = equation.params['mesh'].size
    return _weighted_sum(counts, itertools.repeat(times))


def _branch_weights(branches, scope, is_model):
    """Returns the weight of each branch of a conditional.

    For the model, within a scope of `layer_kinds`, that is the share of layers that take
    it. Otherwise only the most expensive branch counts.
    """
    kinds = _KINDS.findall(scope)
    counts = [int(count) for count in kinds[-1].split('_')] if kinds else []
    if is_model and len(counts) == len(branches):
        return [count / sum(counts) for count in counts]
    costs = [sum(branch.values()) for branch in branches]
    return [int(index == costs.index(max(costs))) for index in range(len(costs))]


def _part(scope):
    """Returns the first name in a scope such as 'transpose(jvp(loss))/encoder/layers'."""
    names = (re.sub(r'\w+\(|\)', '', name) for name in scope.split('/'))
    # The equations of einsum, which are scopes, too, are not identifiers.
    named = (name for name in names if name not in _NO_PART and name.isidentifier())
    return next(named, 'other')


def _product(equation):
    (contracted, _), _ = equation.params['dimension_numbers']
    if not contracted:  # an outer product adds nothing up
        return 0
    left = equation.invars[0].aval.shape
    depth = math.prod(left[axis] for axis in contracted)
    return 2 * depth * equation.outvars[0].aval.size
