"""Cost of one HLO instruction: FLOPs of its matrix products and bytes of memory traffic.

Derived from the program text. An operand that is read twice counts once; of an array
that is only sliced or updated in place, only the slice counts.
"""

import math
import re

from jepa_text.planning import hlo

SLICES, UPDATE = ('dynamic-slice', 'gather', 'slice'), 'dynamic-update-slice'


def products(instruction, types, program):
    """(FLOPs, operand dtype) of the matrix products of an instruction, including those in
    computations that it calls; `types` {name: Instruction} is its own computation."""
    if instruction.op in ('dot', 'convolution'):
        return _product(instruction, types)
    if instruction.op == 'custom-call' and re.search(
        r'cublas|matmul|gemm', instruction.target
    ):
        return _library_product(instruction, types)
    if instruction.op in ('fusion', 'async-start', 'call') and instruction.called:
        inner = program.computations.get(instruction.called, {})
        found = [products(one, inner, program) for one in inner.values()]
        dtypes = [dtype for flops, dtype in found if flops]
        widest = 'f32' if 'f32' in dtypes else next(iter(dtypes), '')
        return sum(flops for flops, _ in found), widest
    return 0.0, ''


def bytes_moved(instruction, types, program):
    """Bytes that an instruction reads and writes."""
    op = instruction.op
    operands = [types[name] for name in instruction.operands if name in types]
    if op in ('fusion', 'fusion-start') and instruction.called in program.computations:
        inner = program.computations[instruction.called]
        return _fusion_reads(inner, operands) + _fusion_writes(inner)
    if op in ('dynamic-slice', 'slice', 'gather', 'broadcast', 'iota'):
        return 2 * instruction.bytes if operands else instruction.bytes
    if op == UPDATE:
        return 2 * operands[1].bytes
    if op.endswith('-start'):
        return 2 * sum(one.bytes for one in operands)
    return _result_bytes(instruction) + sum(one.bytes for one in operands)


def _result_bytes(instruction):
    """Bytes of the result, without the scratch memory that library calls request."""
    is_call = instruction.op == 'custom-call'
    return sum(
        hlo.BYTES.get(kind, 0) * math.prod(sizes)
        for kind, sizes in hlo.shapes(instruction.shape)
        if not (is_call and kind in ('s8', 'u8') and len(sizes) == 1)
    )


def _fusion_reads(inner, operands):
    """Bytes that a fusion reads; of operands that it only slices, only the slices."""
    total = 0
    parameters = [one for one in inner.values() if one.op == 'parameter']
    for parameter in parameters:
        number = int(parameter.operand_text)
        size = operands[number].bytes if number < len(operands) else parameter.bytes
        users = list(_users(inner, parameter.name))
        # An array that is updated in place is not read; a sliced one is read in part.
        sliced = [one for op, one, _ in users if op in SLICES]
        updated = [op for op, _, place in users if op == UPDATE and place == 0]
        if users and len(sliced) + len(updated) == len(users):
            size = min(size, sum(one.bytes for one in sliced))
        total += size
    return total


def _users(inner, name):
    """Yields (op, instruction, operand position) of each use of a value, looking through
    instructions that only copy, convert or reshape it."""
    for one in inner.values():
        if name in one.operands:
            if one.op in ('bitcast', 'reshape', 'convert', 'copy') and not one.is_root:
                yield from _users(inner, one.name)
            else:
                yield one.op, one, one.operands.index(name)


def _fusion_writes(inner):
    """Bytes that a fusion writes; of results that it only updates, only the update."""
    updates = [one for one in inner.values() if one.op == UPDATE]
    total = sum(one.bytes for one in inner.values() if one.is_root)
    for update in updates:
        changed = inner.get(update.operands[1])
        if changed is not None:
            total -= max(0, update.bytes - changed.bytes)
    return max(0, total)


def _product(instruction, types):
    """(FLOPs, operand dtype) of a dot, or of the convolution that TPUs make of it."""
    left, right = (types[name] for name in instruction.operands[:2])
    (_, result), *_ = hlo.shapes(instruction.shape)
    ((dtype, sizes), *_), ((_, others), *_) = map(hlo.shapes, (left.shape, right.shape))
    if instruction.op == 'dot':
        axes = _numbers(r'lhs_contracting_dims=\{([\d,]*)\}', instruction.rest)
        depth = math.prod(sizes[axis] for axis in axes)
    else:
        labels = re.search(r'dim_labels=\w+_(\w+)->', instruction.rest)[1]
        depth = others[labels.index('i')]
    return 2.0 * math.prod(result) * depth, dtype


def _library_product(instruction, types):
    """(FLOPs, operand dtype) of a matrix product by a library call."""
    left = types[instruction.operands[0]]
    ((dtype, sizes), *_) = hlo.shapes(left.shape)
    (_, result), *_ = hlo.shapes(instruction.shape)
    axes = _numbers(r'"lhs_contracting_dimensions":\[([\d",]*)\]', instruction.rest)
    return 2.0 * math.prod(result) * math.prod(sizes[axis] for axis in axes), dtype


def _numbers(pattern, text):
    found = re.search(pattern, text)
    return [int(n) for n in re.findall(r'\d+', found[1])] if found else []
