"""Reads the text of compiled programs (HLO): instructions, memory traffic, collectives.

That is `compiled.as_text()` of programs for CPUs, GPUs and TPUs. Nothing is executed.
"""

import dataclasses
import math
import re
from typing import NamedTuple

BYTES = dict(f64=8, s64=8, u64=8, f32=4, s32=4, u32=4, bf16=2, f16=2, s16=2, u16=2)
BYTES |= dict(s8=1, u8=1, pred=1, f8e4m3fn=1, f8e5m2=1)
_COLLECTIVE = re.compile(
    r'(all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)'
)
_ARRAY = re.compile(r'\b([a-z]+\d+\w*|pred)\[([\d,]*)\]')
_HEAD = re.compile(r'^(ENTRY )?%?([\w.-]+) \(.*\{$')
_LINE = re.compile(
    r'^\s+(?P<root>ROOT )?%?(?P<name>[\w.-]+) = (?P<shape>.*?) (?P<op>[\w-]+)'
    r'\((?P<inputs>.*?)\)(?P<rest>(?:, \w+=.*)?)$'
)
_CALLED = re.compile(r'(?:calls|to_apply|body|\w+_computations?)=(\{[^}]*\}|[^\s,]+)')
# Operations that move no data; the start of a collective counts with its end.
_FREE = ('parameter', 'constant', 'tuple', 'get-tuple-element', 'bitcast', 'after-all')
_FREE += ('partition-id', 'replica-id', 'opt-barrier')
_SLICES, _UPDATE = ('dynamic-slice', 'gather', 'slice'), 'dynamic-update-slice'
# Custom calls that multiply matrices.
_PRODUCTS = re.compile(
    r'custom_call_target="[^"]*(cublas|gemm|matmul|fmha|triton|mosaic|tpu_custom_call)'
)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """`%name = shape op(inputs), rest`."""

    name: str
    shape: str
    op: str
    inputs: str
    rest: str
    is_root: bool

    @property
    def operands(self):
        """The names of the operands."""
        return re.findall(r'%([\w.-]+)', self.inputs)

    @property
    def bytes(self):
        """Bytes of the result, including all elements of a tuple."""
        return size(self.shape)

    @property
    def called(self):
        """The names of the called computations: a body, a fusion, or branches."""
        return re.findall(r'[\w.-]+', ' '.join(_CALLED.findall(self.rest)))

    @property
    def trip_count(self):
        """Iterations of a loop; None if the text does not state it."""
        match = re.search(r'known_trip_count":\s*\{"n":\s*"(\d+)"', self.rest)
        return int(match[1]) if match else None


@dataclasses.dataclass(frozen=True)
class Program:
    """`computations` {name: {name: Instruction}}, in execution order, and the name of the
    entry computation."""

    computations: dict
    entry: str


def parse(text):
    """The Program of an HLO text. Raises ValueError if the text has no ENTRY."""
    computations, entry, current = {}, None, None
    for line in text.splitlines():
        if head := _HEAD.match(line):
            current = computations[head[2]] = {}
            entry = head[2] if head[1] else entry
        elif current is not None and (match := _LINE.match(line)):
            fields = match.groupdict()
            is_root = bool(fields.pop('root'))
            current[match['name']] = Instruction(**fields, is_root=is_root)
    if entry is None:
        raise ValueError(f'The HLO text has no ENTRY: {text[:80]!r}.')
    return Program(computations, entry)


def shapes(text):
    """[(dtype, sizes)] of the arrays in a shape.

    >>> shapes('(bf16[2,3]{1,0}, f32[])')
    [('bf16', (2, 3)), ('f32', ())]
    """
    return [
        (kind, tuple(int(size) for size in sizes.split(',') if size))
        for kind, sizes in _ARRAY.findall(text)
    ]


def size(text):
    """Bytes of a shape, including all elements of a tuple.

    >>> size('(bf16[2,3]{1,0}, f32[])')
    16
    """
    return sum(BYTES.get(kind, 0) * math.prod(sizes) for kind, sizes in shapes(text))


def group_size(instruction):
    """Number of devices in a collective. Raises ValueError if the text has no group."""
    line = instruction.rest
    if 'collective-permute' in instruction.op:
        return 2
    if mesh := re.search(r'replica_groups=mesh\[([^\]]*)\].*? \{([^}]*)\}', line):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", mesh[1]))
        return math.prod(int(sizes[axis]) for axis in re.findall(r"'(\w+)'", mesh[2]))
    if groups := re.search(r'replica_groups=\{\{([\d,]*)\}', line):
        return len(groups[1].split(','))
    if groups := re.search(r'replica_groups=\[\d+,(\d+)\]', line):
        return int(groups[1])
    raise ValueError(f'cannot parse the replica groups of {instruction}')


class Collective(NamedTuple):
    """A collective, such as 'all-gather', among `group` devices that runs `times` per
    step.

    `bytes` is the size of its result on each device; `is_async` whether the program has a
    start and a later end of it.
    """

    kind: str
    group: int
    bytes: int
    times: int
    is_async: bool

    @property
    def sent(self):
        """Bytes that each device sends per step, with the ring algorithms of NCCL."""
        share = (self.group - 1) / self.group
        factors = {'all-reduce': 2 * share, 'reduce-scatter': self.group - 1}
        factors |= {'collective-permute': 1}
        return self.times * self.bytes * factors.get(self.kind, share)


class Traffic(NamedTuple):
    """What a step moves on each device: `bytes` to and from memory by all kernels but
    matrix products, and the tuple of its Collectives."""

    bytes: float
    collectives: tuple


def collective(program, name, each):
    """The Collective that an instruction of a computation ends, or None.

    An asynchronous one ends at its `-done`, whose shape is the result. Raises ValueError
    if the text has no group.
    """
    start = each
    while start.op.endswith(('-done', '-update')):
        start = program.computations[name][start.operands[0]]
    sender = _sender(program, start)
    if sender is None or each.op.endswith('-start'):
        return None
    kind = _COLLECTIVE.match(sender.op)[1]
    return Collective(kind, group_size(sender), each.bytes, 1, start is not each)


def _sender(program, start):
    """The collective that an instruction is or calls, or None."""
    if start.op == 'async-start':
        inner = (program.computations[other].values() for other in start.called)
        return next((x for one in inner for x in one if _COLLECTIVE.match(x.op)), None)
    return start if _COLLECTIVE.match(start.op) else None


def traffic(text):
    """The Traffic of a program's text; what is in a loop counts once per iteration.

    Of a conditional, the branch with the least memory traffic counts, since expensive
    branches are rarely taken (diagnostics, the fallback of attention). An operand that is
    read twice counts once; of an array that is only sliced or updated in place, only the
    slice counts. Raises ValueError for a loop whose trip count the text does not state,
    as in programs by libtpu, and for a collective whose group cannot be parsed.
    """
    program = parse(text)
    return _traffic(program, program.entry)


def _traffic(program, name):
    total, collectives = 0.0, []
    for each in program.computations[name].values():
        if each.op in ('while', 'conditional', 'call'):
            inner = min(
                (_traffic(program, other) for other in each.called),
                key=lambda one: one.bytes,
            )
            times = each.trip_count if each.op == 'while' else 1
            if times is None and (inner.bytes or inner.collectives):
                raise ValueError(f'the trip count of loop {each.name} is unknown')
            times = times or 1
            total += times * inner.bytes
            collectives += [one._replace(times=one.times * times) for one in inner[1]]
        elif one := collective(program, name, each):
            collectives += [one] if one.group > 1 else []
        elif not (
            each.op in _FREE
            or each.op.endswith(('-done', '-update'))
            or _sender(program, each)
            or _multiplies(program, each)
        ):
            total += _bytes_moved(program, name, each)
    return Traffic(total, tuple(collectives))


def _multiplies(program, each):
    if each.op in ('dot', 'convolution'):
        return True
    if each.op == 'custom-call':
        return bool(_PRODUCTS.search(each.rest))
    if each.op not in ('fusion', 'fusion-start', 'async-start'):
        return False
    inner = (program.computations[other].values() for other in each.called)
    return any(_multiplies(program, x) for one in inner for x in one)


def _bytes_moved(program, name, each):
    """Bytes that an instruction of a computation reads and writes."""
    own = program.computations[name]
    operands = [own[operand] for operand in each.operands if operand in own]
    if each.op in ('fusion', 'fusion-start'):
        inner = program.computations[each.called[0]]
        return _fusion_reads(inner, operands) + _fusion_writes(inner)
    if each.op in (*_SLICES, 'broadcast', 'iota'):
        return 2 * each.bytes if operands else each.bytes
    if each.op == _UPDATE:
        return 2 * operands[1].bytes
    if each.op.endswith('-start'):
        return 2 * sum(one.bytes for one in operands)
    return each.bytes + sum(one.bytes for one in operands)


def _fusion_reads(inner, operands):
    """Bytes that a fusion reads; of operands that it only slices, only the slices."""
    total = 0
    for one in inner.values():
        if one.op != 'parameter':
            continue
        size_ = operands[int(one.inputs)].bytes
        users = list(_users(inner, one.name))
        # An array that is updated in place is not read; a sliced one is read in part.
        sliced = [user for user, _ in users if user.op in _SLICES]
        updated = [user for user, place in users if user.op == _UPDATE and place == 0]
        if users and len(sliced) + len(updated) == len(users):
            size_ = min(size_, sum(user.bytes for user in sliced))
        total += size_
    return total


def _users(inner, name):
    """Yields (instruction, operand position) of each use of a value, looking through
    instructions that only copy, convert or reshape it."""
    for one in inner.values():
        if name in one.operands:
            if one.op in ('bitcast', 'reshape', 'convert', 'copy') and not one.is_root:
                yield from _users(inner, one.name)
            else:
                yield one, one.operands.index(name)


def _fusion_writes(inner):
    """Bytes that a fusion writes; of results that it only updates, only the update."""
    updates = [one for one in inner.values() if one.op == _UPDATE]
    total = sum(one.bytes for one in inner.values() if one.is_root)
    for update in updates:
        changed = inner.get(update.operands[1])
        if changed is not None:
            total -= max(0, update.bytes - changed.bytes)
    return max(0, total)
