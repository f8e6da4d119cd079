"""What a compiled step does, kernel by kernel: products, attention, passes over memory,
collectives. roofline.py says how long that takes at least.

Of branches, the one that moves least counts, as what is dear is rare (diagnostics,
attention's way out).
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
# Kernels of attention, and their products beside those of the forward pass, which has
# two: the backward pass has five, or seven in two kernels.
ATTENTION = (
    (r'preprocess_backward', 0.0),
    (r'fmha\w*Backward|mha_backward|attention_(bwd|backward)', 2.5),
    (r'dkv', 2.0),
    (r'(mha|attention)\w*_dq', 1.5),
    (r'fmha|mha_forward|mha_fwd|attention_(fwd|kernel|forward)|flash_attention', 1.0),
)
KERNEL_TARGETS = re.compile(r'fmha|triton|mosaic|tpu_custom_call')
# Parts of a name that tell how something was traced, not what it is.
_HOW = re.compile(
    r'^(jit\(.*\)|while|body|closed_call|checkpoint|rematted_computation|shard_map|'
    r'custom_vjp_call|custom_jvp_call|eval_jaxpr|pjit|cond|branch_\d+_fun|counted_.*|kinds_.*|.*->.*)$'
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kernel:
    """What a device runs `times` a step.

    kind     product, attention, collective, copy, or pass (all else that moves bytes)
    name     what it computes; `op` is what HLO calls it
    flops    of its products; `dtype` is that of their operands, else of its result
    bytes    read and written
    sent     bytes to other devices, of a collective among `group`
    until    index of the first kernel that waits for a collective, None if all do
    forward  attention's forward passes that it is: 1, or 0 of what is not one
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
    """The Kernels of a program's text, in the order in which they run.

    `attended`: (row length, share of the scores that masks show) of what is attended to,
    by which the FLOPs of attention's kernels are known. Raises ValueError for a loop
    whose turns the text does not tell, as libtpu's do not.
    """
    program = hlo.parse(text)
    kernels = []
    _Reader(program, dict(attended), kernels).walk(program.entry, 1)
    return kernels


class _Reader:
    def __init__(self, program, attended, kernels):
        self.program, self.attended, self.kernels = program, attended, kernels

    def walk(self, name, times):
        """Adds what a computation runs."""
        begun = {}
        for each in self.program.of(name):
            if each.op == 'while':
                if each.turns is None:
                    raise ValueError(f'nobody knows how often {each.name} turns')
                self.walk(each.called, times * each.turns)
            elif each.op == 'conditional':
                self._cheapest(each.branches, times)
            elif each.op == 'call':
                self.walk(each.called, times)
            elif each.op.endswith('-done') or each.op.endswith('-update'):
                self._ended(begun, each)
            elif each.op not in FREE:
                at = len(self.kernels)
                self._add(each, name, times)
                if each.op.endswith('-start') and len(self.kernels) > at:
                    begun[each.name] = at

    def _cheapest(self, branches, times):
        """Of some computations the one that moves least."""
        tried = []
        for branch in branches:
            kernels = []
            _Reader(self.program, self.attended, kernels).walk(branch, times)
            tried.append((sum(one.bytes * one.times for one in kernels), branch))
        self.walk(min(tried)[1], times)

    def _ended(self, begun, done):
        at = begun.get(done.operands[0])
        if at is None:
            return
        if done.op.endswith('-update'):
            begun[done.name] = at
            return
        own = self.kernels[at]
        if own.kind == 'collective':
            self.kernels[at] = dataclasses.replace(own, until=len(self.kernels))

    def _add(self, each, name, times):
        types = self.program.computations[name]
        sender = self._sender(each)
        kinds = hlo.shapes(each.shape)
        about = dict(
            name=short(each.where) or each.name,
            op=each.op,
            times=times,
            shape=re.sub(r'\{[^{}]*\}', '', each.shape)[:80],
            dtype=kinds[0][0] if kinds else '',
            bytes=instruction_cost.moved(each, types, self.program),
        )
        if sender is not None:
            if (group := hlo.members(sender)) < 2:
                return
            one = hlo.Collective(sender.collective, group, hlo.held(sender), 1, '')
            about |= dict(kind='collective', op=sender.collective, sent=one.sent)
            self.kernels.append(Kernel(**about, group=group))
            return
        kernel, own = self._kernel(each, types)
        if (shares := self._attention(kernel)) is not None:
            flops = shares * self._scores(kernel, own)
            about |= dict(kind='attention', flops=flops, forward=int(shares == 1))
            about |= dict(name=short(kernel.where) or kernel.name)
        elif (found := instruction_cost.products(each, types, self.program))[0]:
            about |= dict(kind='product', flops=found[0], dtype=found[1])
        else:
            about |= dict(kind='copy' if self._copies(each) else 'pass')
        self.kernels.append(Kernel(**about))

    def _sender(self, each):
        """The collective that an instruction is or begins; None."""
        if each.collective:
            return each
        if each.op == 'async-start' and each.called:
            inner = self.program.of(each.called)
            return next((one for one in inner if one.collective), None)
        return None

    def _attention(self, kernel):
        """Its products beside those of a forward pass, of one of attention's kernels."""
        if kernel is None:
            return None
        named = ' '.join((kernel.target, kernel.where, kernel.name))
        named = f'{named} {_kernel_name(kernel.rest)}'
        found = (share for pattern, share in ATTENTION if re.search(pattern, named))
        share = next(found, None)
        if share is None and 'attention' in kernel.where:
            return _share_by_results(kernel)
        return share

    def _kernel(self, each, types):
        """(the kernel written by hand that an instruction is, or is a fusion of; what its
        operands are among), or None."""
        inner = {each.name: each}
        if each.op == 'fusion' and each.called in self.program.computations:
            inner = types = self.program.computations[each.called]
        for one in inner.values():
            if one.op == 'custom-call' and KERNEL_TARGETS.search(one.target):
                return one, types
        return None, types

    def _scores(self, each, types):
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

    def _copies(self, each):
        """Does it move what it reads, and nothing else?"""
        if each.op in ('copy', 'transpose', 'copy-start'):
            return True
        if each.op != 'fusion' or each.called not in self.program.computations:
            return False
        inside = {one.op for one in self.program.of(each.called)} - FREE
        return bool(inside) and inside <= {'copy', 'transpose', 'reshape'}


def _share_by_results(each):
    """What a kernel of attention that no pattern knows computes beside a forward pass:
    backward one gradient of q, of k and v, or of all, by the number of its results."""
    results = sum(len(sizes) == 4 for _, sizes in hlo.shapes(each.shape))
    if 'transpose(' in each.where and 'rematted_computation' not in each.where:
        return {0: 0.0, 1: 1.5, 2: 2.0}.get(results, 2.5)
    return 1.0


def _kernel_name(rest):
    """The name that a kernel written by hand has in its settings; ''."""
    found = re.search(r'\\?"?(?:kernel_)?name\\?"?\s*[:=]\s*\\?"([\w.]+)', rest)
    return found[1] if found else ''


def short(where):
    """What 'jit(step)/transpose(jvp(loss))/encoder/layers/ffn/up/dot_general' computes:
    'encoder/layers/ffn/up/dot_general, backward'.

    >>> short('jit(step)/transpose(jvp(loss))/while/body/ffn/dot_general')
    'ffn/dot_general, backward'
    """
    parts = [part for part in where.split('/') if part and not _HOW.match(part)]
    parts = [part for part in parts if not re.match(r'^(transpose|jvp)\(', part)]
    name = '/'.join(parts[-5:])
    if 'rematted_computation' in where:
        return f'{name}, again'
    return f'{name}, backward' if 'transpose(' in where else name
