"""What one instruction of a program costs: FLOPs of products, bytes of memory.

As the text says it. What is read twice counts once; of what is only sliced or updated,
the slice.
"""

import math
import re

from jepa_text.planning import hlo

SLICES, UPDATE = ('dynamic-slice', 'gather', 'slice'), 'dynamic-update-slice'


def products(each, types, program):
    """(FLOPs, dtype of the operands) of the products that an instruction holds; `types`
    are the instructions of its computation, by name."""
    if each.op in ('dot', 'convolution'):
        return _product(each, types)
    if each.op == 'custom-call' and re.search(r'cublas|matmul|gemm', each.target):
        return _library(each, types)
    if each.op in ('fusion', 'async-start', 'call') and each.called:
        inner = program.computations.get(each.called, {})
        found = [products(one, inner, program) for one in inner.values()]
        dtypes = [dtype for flops, dtype in found if flops]
        wide = 'f32' if 'f32' in dtypes else next(iter(dtypes), '')
        return sum(flops for flops, _ in found), wide
    return 0.0, ''


def moved(each, types, program):
    """Bytes that an instruction reads and writes."""
    operands = [types[one] for one in each.operands if one in types]
    if each.op in ('fusion', 'fusion-start') and each.called in program.computations:
        inner = program.computations[each.called]
        return _read(inner, operands) + _written(inner)
    if each.op in ('dynamic-slice', 'slice', 'gather', 'broadcast', 'iota'):
        return 2 * each.bytes if operands else each.bytes
    if each.op == UPDATE:
        return 2 * operands[1].bytes
    if each.op.endswith('-start'):
        return 2 * sum(one.bytes for one in operands)
    return _given(each) + sum(one.bytes for one in operands)


def _given(each):
    """Bytes of the result, without the scratch memory that libraries ask for."""
    return sum(
        hlo.BYTES.get(kind, 0) * math.prod(sizes)
        for kind, sizes in hlo.shapes(each.shape)
        if not (each.op == 'custom-call' and kind in ('s8', 'u8') and len(sizes) == 1)
    )


def _read(inner, operands):
    """Bytes that a fusion reads: of what it only slices, the slices."""
    total = 0
    parameters = [one for one in inner.values() if one.op == 'parameter']
    for parameter in parameters:
        number = int(parameter.inside)
        whole = operands[number].bytes if number < len(operands) else parameter.bytes
        users = list(_users(inner, parameter.name))
        # What is updated in place is not read, what is sliced in part.
        sliced = [one for op, one, _ in users if op in SLICES]
        updated = [op for op, _, place in users if op == UPDATE and place == 0]
        if users and len(sliced) + len(updated) == len(users):
            whole = min(whole, sum(one.bytes for one in sliced))
        total += whole
    return total


def _users(inner, name):
    """(op, instruction, place among its operands) of all that read a name, through what
    changes no number."""
    for one in inner.values():
        if name in one.operands:
            if one.op in ('bitcast', 'reshape', 'convert', 'copy') and not one.is_root:
                yield from _users(inner, one.name)
            else:
                yield one.op, one, one.operands.index(name)


def _written(inner):
    """Bytes that a fusion writes: of what it only updates, the update."""
    updates = [one for one in inner.values() if one.op == UPDATE]
    total = sum(one.bytes for one in inner.values() if one.is_root)
    for update in updates:
        changed = inner.get(update.operands[1])
        if changed is not None:
            total -= max(0, update.bytes - changed.bytes)
    return max(0, total)


def _product(each, types):
    """(FLOPs, dtype) of a dot, or of what TPUs make of it."""
    left, right = (types[one] for one in each.operands[:2])
    (_, result), *_ = hlo.shapes(each.shape)
    ((dtype, sizes), *_), ((_, others), *_) = map(hlo.shapes, (left.shape, right.shape))
    if each.op == 'dot':
        axes = _numbers(r'lhs_contracting_dims=\{([\d,]*)\}', each.rest)
        depth = math.prod(sizes[axis] for axis in axes)
    else:
        labels = re.search(r'dim_labels=\w+_(\w+)->', each.rest)[1]
        depth = others[labels.index('i')]
    return 2.0 * math.prod(result) * depth, dtype


def _library(each, types):
    """(FLOPs, dtype) of a product that a library computes."""
    left = types[each.operands[0]]
    ((dtype, sizes), *_) = hlo.shapes(left.shape)
    (_, result), *_ = hlo.shapes(each.shape)
    axes = _numbers(r'"lhs_contracting_dimensions":\[([\d",]*)\]', each.rest)
    return 2.0 * math.prod(result) * math.prod(sizes[axis] for axis in axes), dtype


def _numbers(pattern, text):
    found = re.search(pattern, text)
    return [int(n) for n in re.findall(r'\d+', found[1])] if found else []
