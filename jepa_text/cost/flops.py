"""How much arithmetic a training step is, counted in its program.

Multiply-adds of matrix products count, as two operations each: the kernels of all
modules, scores and values of attention, LM head, predictor, and the target's forward
pass. What goes element by element (norms, softmax, rotations, optimizer) does not.

    model    `Count.parts`: every product once, without what rematerialization computes
             again; of attention, what its mask shows. This is what MFU counts (PaLM,
             arXiv 2204.02311, appendix B), except that causal attention counts half,
             which PaLM counts whole. Documents are not told apart in a row. For padding,
             multiply by the share of real tokens.
    program  `Count.held`: all products, with the masked half of attention.

What the numbers of a program do not tell, its scopes do: the part that a product belongs
to, what attention may see (`counted`), and how many layers are of a kind (`of_kinds`).
"""

import dataclasses
import itertools
import math
import re

import jax
from jax.extend.core import jaxprs_in_params

AGAIN = 'rematted_computation'  # jax's name for what is computed again
_COUNTED, _KINDS = re.compile(r'counted_([\d.e-]+)'), re.compile(r'kinds_([\d_]+)')
# Scopes that are no part; einsum's equations are no names.
_NO_PART = ('', 'loss', AGAIN)


@dataclasses.dataclass(frozen=True)
class Count:
    """FLOPs of a function: `parts`, {scope: of the model}; `held`, of its program."""

    parts: dict[str, float]
    held: float

    @property
    def model(self):
        return sum(self.parts.values())


def traced(function, *inputs):
    """The Count of a function of abstract or real arrays; nothing is computed.

    Loops count as often as they run, of branches the dearest counts. Kernels written by
    hand (Pallas, custom calls) are not seen. Raises ValueError for a loop whose length
    is not known before it runs.
    """
    jaxpr = jax.make_jaxpr(function)(*inputs).jaxpr
    parts = _count(jaxpr, '', is_model=True)
    return Count(parts, sum(_count(jaxpr, '', is_model=False).values()))


def counted(share):
    """A scope for products of which only a share counts: what a mask lets through."""
    return jax.named_scope(f'counted_{share}')


def seen(length, causal, window=None):
    """How many positions of a row of `length` one looks at, on average.

    >>> seen(4, causal=False), seen(4, causal=True), seen(4, causal=True, window=1)
    (4.0, 2.5, 1.75)
    """
    reach = length - 1 if window is None else min(window, length - 1)
    # On one side, less what sticks out at the end of the row.
    side = reach - reach * (reach + 1) / (2 * length)
    return 1 + side * (1 if causal else 2)


def of_kinds(kinds):
    """A scope for layers, given the kind of each: a number, the branch that it takes."""
    counts = [list(kinds).count(kind) for kind in range(max(kinds) + 1)]
    return jax.named_scope('kinds_' + '_'.join(map(str, counts)))


def _count(jaxpr, scope, is_model):
    """{part: FLOPs} of a program inside of a scope."""
    counts = (_count_equation(equation, scope, is_model) for equation in jaxpr.eqns)
    return _added(counts, itertools.repeat(1))


def _added(counts, times):
    """{part: FLOPs} of several such, each so many times."""
    total = {}
    for count, time in zip(counts, times):
        for part, flops in count.items():
            total[part] = total.get(part, 0) + time * flops
    return total


def _count_equation(equation, scope, is_model):
    """{part: FLOPs} of an operation, with the programs inside of it."""
    name = equation.primitive.name
    inner = [] if name == 'pallas_call' else list(jaxprs_in_params(equation.params))
    if name != 'dot_general' and not inner:
        return {}
    scope = f'{scope}/{equation.source_info.name_stack}'
    if is_model and AGAIN in scope:
        return {}
    if name == 'dot_general':
        shown = [float(share) for share in _COUNTED.findall(scope)] if is_model else []
        return {_part(scope): _product(equation) * math.prod(shown)}
    counts = [_count(jaxpr, scope, is_model) for jaxpr in inner]
    if name == 'while' and any(counts):
        raise ValueError(
            'flops.traced: a while loop with products runs an unknown number of times; '
            'give jax.lax.fori_loop whole numbers as bounds, or use jax.lax.scan.'
        )
    if name == 'cond':
        return _added(counts, _shares(counts, scope, is_model))
    times = equation.params['length'] if name == 'scan' else 1
    if name == 'shard_map':
        times = equation.params['mesh'].size
    return _added(counts, itertools.repeat(times))


def _shares(branches, scope, is_model):
    """How often each branch counts: in the model those of kinds of layers as often as
    there are, on average; else the dearest once."""
    kinds = _KINDS.findall(scope)
    counts = [int(count) for count in kinds[-1].split('_')] if kinds else []
    if is_model and len(counts) == len(branches):
        return [count / sum(counts) for count in counts]
    costs = [sum(branch.values()) for branch in branches]
    return [int(index == costs.index(max(costs))) for index in range(len(costs))]


def _part(scope):
    """The first name in a scope such as 'transpose(jvp(loss))/encoder/layers'."""
    names = (re.sub(r'\w+\(|\)', '', name) for name in scope.split('/'))
    named = (name for name in names if name not in _NO_PART and name.isidentifier())
    return next(named, 'other')


def _product(equation):
    (contracted, _), _ = equation.params['dimension_numbers']
    if not contracted:  # an outer product adds nothing up
        return 0
    left = equation.invars[0].aval.shape
    depth = math.prod(left[axis] for axis in contracted)
    return 2 * depth * equation.outvars[0].aval.size
