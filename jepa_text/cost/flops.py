"""How much arithmetic a training step is: a formula, and a count of what is computed.

Multiply-adds of matrix products count, as two operations each: the kernels of all
modules, scores and values of attention, word head, predictor, and the target's forward
pass. What goes element by element (norms, softmax, rotations, optimizer) does not.

    model     `step` and `per_token`, from what the objective says it runs: the forward
              pass once, its gradients as much again for each factor, nothing twice. This
              is what MFU counts (PaLM, arXiv 2204.02311, appendix B), except that causal
              attention counts half, which PaLM counts whole. Documents are not told
              apart in a row. For padding, multiply by the share of real tokens.
    hardware  `traced`, from the program: also what rematerialisation computes again, and
              the masked half of attention.
"""

import dataclasses
import math

import jax
from jax.extend.core import jaxprs_in_params


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pass:
    """One reading of some modules over the positions of a batch, forward and backward.

    name        what it is called in a table: 'encoder', 'head', 'target'...
    modules     paths into the parameters ('layer_*' for all that begin so); every kernel
                below them is applied once at each position, and so is a leaf named itself
    positions   how many, in all rows
    attends     how many positions each of them looks at, on average, in every attention
                layer below `modules`
    products    multiply-adds at each position beside these
    gradients   of how many factors of each product the gradient is taken: 2, both; 1, if
                the other is no parameter and has none; 0, forward only
    """

    name: str
    modules: tuple = ()
    positions: int
    attends: float = 0.0
    products: float = 0.0
    gradients: int = 2


def attended(encoder, length, causal):
    """How many positions of a row of `length` one looks at, on average over layers."""
    windows = getattr(encoder, 'window', None)
    windows = windows if isinstance(windows, tuple | list) else (windows,)
    return sum(_seen(length, causal, w) for w in windows) / len(windows)


def _seen(length, causal, window):
    reach = length - 1 if window is None else min(window, length - 1)
    # On one side, less what sticks out at the end of the row.
    side = reach - reach * (reach + 1) / (2 * length)
    return 1 + side * (1 if causal else 2)


def step(network, objective, rows, length):
    """{name of a pass: FLOPs} of one training step on `rows` rows, the model's count.

    `network` is the objective's Network.
    """
    params = jax.eval_shape(lambda: network.init(0))
    total = {}
    for one in objective.passes(network.encoder, rows, length):
        kernels, heads = _sizes(params, one.modules)
        # Scores and weighted values: two products per head and position looked at.
        each = kernels + 2 * heads * one.attends + one.products
        flops = 2 * one.positions * each * (1 + one.gradients)
        total[one.name] = total.get(one.name, 0) + flops
    return total


def per_token(network, objective, rows, length):
    """FLOPs of a training step per position of its rows, the model's count."""
    return sum(step(network, objective, rows, length).values()) / (rows * length)


def _sizes(params, modules):
    """Entries of all kernels below the paths, and the widths of all queries."""
    kernels = heads = 0
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        name = jax.tree_util.keystr(path, simple=True, separator='/')
        if name in modules:
            kernels += leaf.size
        elif name.endswith('/kernel') and any(_below(name, path) for path in modules):
            kernels += leaf.size
            if name.endswith('/q/kernel'):
                # A scanned stack has its layers in front.
                heads += leaf.size // leaf.shape[-2]
    return kernels, heads


def _below(name, path):
    """'predictor/layer_*' stands for all whose name begins so."""
    return name.startswith(path[:-1] if path.endswith('*') else f'{path}/')


def traced(function, *inputs):
    """FLOPs of all matrix products that a function of abstract or real arrays holds.

    Loops count as often as they run, of branches the dearest counts. Kernels written by
    hand (Pallas, custom calls) are not seen. Raises ValueError for a loop whose length
    is not known before it runs.
    """
    return _count(jax.make_jaxpr(function)(*inputs).jaxpr)


def _count(jaxpr):
    return sum(_count_equation(equation) for equation in jaxpr.eqns)


def _count_equation(equation):
    name, settings = equation.primitive.name, equation.params
    if name == 'dot_general':
        return _count_product(equation)
    if name == 'pallas_call':
        return 0
    inner = [_count(jaxpr) for jaxpr in jaxprs_in_params(settings)]
    if name == 'while' and sum(inner):
        raise ValueError(
            'flops.traced: a while loop with products runs an unknown number of times; '
            'give jax.lax.fori_loop whole numbers as bounds, or use jax.lax.scan.'
        )
    if name == 'cond':
        return max(inner)
    times = {'scan': settings.get('length'), 'shard_map': _devices(settings)}
    return sum(inner) * (times.get(name) or 1)


def _count_product(equation):
    (contracted, _), _ = equation.params['dimension_numbers']
    if not contracted:  # an outer product adds nothing up
        return 0
    left = equation.invars[0].aval.shape
    depth = math.prod(left[axis] for axis in contracted)
    return 2 * depth * equation.outvars[0].aval.size


def _devices(settings):
    return settings['mesh'].size if 'mesh' in settings else 1
