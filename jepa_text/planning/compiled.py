"""Extracts the kernels of a compiled step: products, attention, copies, collectives.

roofline.py computes a lower bound of their run time. Of a conditional, only the branch
with the least memory traffic counts, since expensive branches are rarely taken
(diagnostics, the fallback of attention).
"""

import dataclasses
import math
import re

from jepa_text.planning import hlo, instruction_cost

FREE = {
    'parameter',
    'constant',
    'tuple',
    'get-tuple-element',
    'bitcast',
    'after-all',
    'partition-id',
    'replica-id',
    'opt-barrier',
}
# Attention kernels: name pattern, and matrix products relative to the forward pass. The
# forward pass has two; the backward pass has five, or seven in two kernels.
ATTENTION = (
    (r'preprocess_backward', 0.0),
    (r'fmha\w*Backward|mha_backward|attention_(bwd|backward)', 2.5),
    (r'dkv', 2.0),
    (r'(mha|attention)\w*_dq', 1.5),
    (r'fmha|mha_forward|mha_fwd|attention_(fwd|kernel|forward)|flash_attention', 1.0),
)
KERNEL_TARGETS = re.compile(r'fmha|triton|mosaic|tpu_custom_call')
# Parts of an operation's name that describe how it was traced, not what it computes.
_TRACING = re.compile(
    r'^(jit\(.*\)|while|body|closed_call|checkpoint|rematted_computation|shard_map|'
    r'custom_vjp_call|custom_jvp_call|eval_jaxpr|pjit|cond|branch_\d+_fun|counted_.*|kinds_.*|.*->.*)$'
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kernel:
    """A kernel that a device runs `times` per step.

    kind     product, attention, collective, copy, or pass (other memory traffic)
    name     what it computes; `op` is the HLO operation
    shape    shape of the result, as HLO text
    dtype    of the operands of a product, otherwise of the result
    flops    of its matrix products
    bytes    read and written
    sent     bytes sent by a collective among `group` devices
    until    index of the first kernel that waits for the collective; None if all do
    forward  1 for a forward pass of attention, otherwise 0
    """

    kind: str
    name: str
    op: str
    times: int
    shape: str
    dtype: str
    flops: float = 0.0
    bytes: float = 0.0
    sent: float = 0.0
    group: int = 1
    until: int | None = None
    forward: int = 0


def read(text, attended=()):
    """The Kernels of a program's text, in execution order.

    `attended` is [(row length, fraction of unmasked scores)] of the attention requests;
    it determines the FLOPs of attention kernels. Raises ValueError for a loop with
    unknown trip count, as in programs by libtpu.
    """
    program = hlo.parse(text)
    kernels = []
    _Reader(program, dict(attended), kernels).walk(program.entry, 1)
    return kernels


class _Reader:
    def __init__(self, program, attended, kernels):
        self.program, self.attended, self.kernels = program, attended, kernels

    def walk(self, name, times):
        """Appends the kernels of a computation that runs `times` per step."""
        started = {}
        for each in self.program.instructions(name):
            if each.op == 'while':
                if each.trip_count is None:
                    raise ValueError(f'the trip count of loop {each.name} is unknown')
                self.walk(each.called, times * each.trip_count)
            elif each.op == 'conditional':
                self._walk_cheapest(each.branches, times)
            elif each.op == 'call':
                self.walk(each.called, times)
            elif each.op.endswith('-done') or each.op.endswith('-update'):
                self._finish(started, each)
            elif each.op not in FREE:
                index = len(self.kernels)
                self._add(each, name, times)
                if each.op.endswith('-start') and len(self.kernels) > index:
                    started[each.name] = index

    def _walk_cheapest(self, branches, times):
        """Appends the kernels of the branch with the least memory traffic."""
        costs = []
        for branch in branches:
            kernels = []
            _Reader(self.program, self.attended, kernels).walk(branch, times)
            costs.append((sum(one.bytes * one.times for one in kernels), branch))
        self.walk(min(costs)[1], times)

    def _finish(self, started, done):
        """Sets `until` of the collective that an asynchronous done belongs to."""
        index = started.get(done.operands[0])
        if index is None:
            return
        if done.op.endswith('-update'):
            started[done.name] = index
            return
        own = self.kernels[index]
        if own.kind == 'collective':
            self.kernels[index] = dataclasses.replace(own, until=len(self.kernels))

    def _add(self, each, name, times):
        """Appends the kernel of one instruction of the computation `name`."""
        types = self.program.computations[name]
        collective = self._collective(each)
        arrays = hlo.shapes(each.shape)
        fields = dict(
            name=short(each.op_name) or each.name,
            op=each.op,
            times=times,
            shape=re.sub(r'\{[^{}]*\}', '', each.shape)[:80],
            dtype=arrays[0][0] if arrays else '',
            bytes=instruction_cost.bytes_moved(each, types, self.program),
        )
        if collective is not None:
            kind, group = collective.collective, hlo.group_size(collective)
            if group > 1:
                sent = hlo.ring_bytes(kind, group, hlo.result_bytes(collective))
                fields |= dict(kind='collective', op=kind, sent=sent, group=group)
                self.kernels.append(Kernel(**fields))
            return
        kernel, scope = self._custom_kernel(each, types)
        if (share := _attention_share(kernel)) is not None:
            flops = share * self._attention_flops(kernel, scope)
            fields |= dict(kind='attention', flops=flops, forward=int(share == 1))
            fields |= dict(name=short(kernel.op_name) or kernel.name)
        elif (found := instruction_cost.products(each, types, self.program))[0]:
            fields |= dict(kind='product', flops=found[0], dtype=found[1])
        else:
            fields |= dict(kind='copy' if self._is_copy(each) else 'pass')
        self.kernels.append(Kernel(**fields))

    def _collective(self, each):
        """The collective that an instruction is or starts, or None."""
        if each.collective:
            return each
        if each.op == 'async-start' and each.called:
            inner = self.program.instructions(each.called)
            return next((one for one in inner if one.collective), None)
        return None

    def _custom_kernel(self, each, types):
        """(kernel, scope): the custom kernel that an instruction is or that its fusion
        contains, or None; and the computation {name: Instruction} of its operands."""
        inner = {each.name: each}
        if each.op == 'fusion' and each.called in self.program.computations:
            inner = types = self.program.computations[each.called]
        for one in inner.values():
            if one.op == 'custom-call' and KERNEL_TARGETS.search(one.target):
                return one, types
        return None, types

    def _attention_flops(self, each, types):
        """FLOPs of the two products of a forward pass over these operands."""
        shapes = [
            sizes
            for operand in each.operands
            if operand in types
            for _, sizes in hlo.shapes(types[operand].shape)
            if len(sizes) >= 3
        ]
        if not shapes:
            return 0.0
        largest = max(shapes, key=math.prod)
        lengths = [n for n in self.attended if n in largest] or [max(largest)]
        length = max(lengths)
        return 4.0 * math.prod(largest) * length * self.attended.get(length, 1.0)

    def _is_copy(self, each):
        """Whether an instruction only moves data."""
        if each.op in ('copy', 'transpose', 'copy-start'):
            return True
        if each.op != 'fusion' or each.called not in self.program.computations:
            return False
        ops = {one.op for one in self.program.instructions(each.called)} - FREE
        return bool(ops) and ops <= {'copy', 'transpose', 'reshape'}


def _attention_share(kernel):
    """Matrix products of an attention kernel relative to a forward pass; None for other
    kernels."""
    if kernel is None:
        return None
    names = kernel.target, kernel.op_name, kernel.name, _kernel_name(kernel.rest)
    for pattern, share in ATTENTION:
        if re.search(pattern, ' '.join(names)):
            return share
    return _share_by_results(kernel) if 'attention' in kernel.op_name else None


def _share_by_results(kernel):
    """Like `_attention_share`, for kernels without a known name. The number of results of
    a backward kernel tells whether it computes gradients of q, of k and v, or of all."""
    results = sum(len(sizes) == 4 for _, sizes in hlo.shapes(kernel.shape))
    name = kernel.op_name
    if 'transpose(' in name and 'rematted_computation' not in name:
        return {0: 0.0, 1: 1.5, 2: 2.0}.get(results, 2.5)
    return 1.0


def _kernel_name(rest):
    """The name in the configuration of a custom kernel, or ''."""
    found = re.search(r'\\?"?(?:kernel_)?name\\?"?\s*[:=]\s*\\?"([\w.]+)', rest)
    return found[1] if found else ''


def short(op_name):
    """Shortens jax's name of an operation to the part that says what it computes.

    >>> short('jit(step)/transpose(jvp(loss))/while/body/ffn/dot_general')
    'ffn/dot_general, backward'
    """
    parts = [part for part in op_name.split('/') if part and not _TRACING.match(part)]
    parts = [part for part in parts if not re.match(r'^(transpose|jvp)\(', part)]
    name = '/'.join(parts[-5:])
    if 'rematted_computation' in op_name:
        return f'{name}, recomputed'
    return f'{name}, backward' if 'transpose(' in op_name else name
