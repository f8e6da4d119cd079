"""Reads the text of compiled programs (HLO): instructions, memory traffic, collectives.

That is `compiled.as_text()` of programs for CPUs, GPUs and TPUs. Nothing is executed.
"""

import dataclasses
import math
import re
from typing import NamedTuple

BYTES = dict(f64=8, s64=8, u64=8, f32=4, s32=4, u32=4, bf16=2, f16=2, s16=2, u16=2)
BYTES |= dict(s8=1, u8=1, pred=1, f8e4m3fn=1, f8e5m2=1)
KINDS = 'all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute'
_COLLECTIVE = re.compile(rf'^({KINDS})(?:-start)?$')
_ARRAY = re.compile(r'\b([a-z]+\d+\w*|pred)\[([\d,]*)\]')
_HEAD = re.compile(r'^(ENTRY )?%?([\w.-]+) \(.*\{$')
_LINE = re.compile(r'^\s+(ROOT )?%?([\w.-]+) = (.*)$')
_CALLED = re.compile(r'(?:calls|to_apply|body|called_computations)=\{?%?([\w.-]+)')
# Operations that move no data.
_FREE = ('parameter', 'constant', 'tuple', 'get-tuple-element', 'bitcast', 'after-all')
_FREE += ('partition-id', 'replica-id', 'opt-barrier')
_SLICES, _UPDATE = ('dynamic-slice', 'gather', 'slice'), 'dynamic-update-slice'
# Custom calls that multiply matrices.
_PRODUCTS = re.compile(r'cublas|gemm|matmul|fmha|triton|mosaic|tpu_custom_call')
_BRANCHES = re.compile(r'(?:true|false)_computation=%?([\w.-]+)')


@dataclasses.dataclass(frozen=True)
class Instruction:
    """`%name = shape op(operands), rest`; `operand_text` is the unparsed text of the
    operands, such as the number of a parameter."""

    name: str
    shape: str
    op: str
    operands: tuple
    operand_text: str
    rest: str
    is_root: bool

    @property
    def bytes(self):
        """Bytes of the result, including all elements of a tuple."""
        return size(self.shape)

    @property
    def target(self):
        """The target of a custom call, or ''."""
        match = re.search(r'custom_call_target="([^"]*)"', self.rest)
        return match[1] if match else ''

    @property
    def called(self):
        """The name of the called computation, or None."""
        match = _CALLED.search(self.rest)
        return match[1] if match else None

    @property
    def branches(self):
        """The names of a conditional's branch computations."""
        listed = re.search(r'branch_computations=\{([^}]*)\}', self.rest)
        if listed:
            return re.findall(r'[\w.-]+', listed[1])
        return _BRANCHES.findall(self.rest)

    @property
    def trip_count(self):
        """Iterations of a loop; None if the text does not state it."""
        match = re.search(r'known_trip_count":\s*\{"n":\s*"(\d+)"', self.rest)
        return int(match[1]) if match else None

    @property
    def collective(self):
        """The kind of a collective, such as 'all-gather', or ''. Of an asynchronous pair
        only the start counts."""
        match = _COLLECTIVE.match(self.op)
        return match[1] if match else ''


@dataclasses.dataclass(frozen=True)
class Program:
    """`computations` {name: {name: Instruction}}, in execution order, and the name of the
    entry computation."""

    computations: dict
    entry: str

    def instructions(self, name):
        """The instructions of a computation."""
        return self.computations[name].values()


def parse(text):
    """The Program of an HLO text. Raises ValueError if the text has no ENTRY."""
    computations, entry, current = {}, None, None
    for line in text.splitlines():
        if head := _HEAD.match(line):
            current = computations[head[2]] = {}
            entry = head[2] if head[1] else entry
        elif current is not None and (parts := _LINE.match(line)):
            instruction = _instruction(parts[2], parts[3], bool(parts[1]))
            if instruction:
                current[instruction.name] = instruction
    if entry is None:
        raise ValueError(f'The HLO text has no ENTRY: {text[:80]!r}.')
    return Program(computations, entry)


def _instruction(name, text, is_root):
    cut = _closing(text, 0) + 1 if text.startswith('(') else text.find(' ')
    shape, text = text[:cut], text[cut:].lstrip()
    if not (head := re.match(r'([\w-]+)\(', text)):
        return None
    end = _closing(text, head.end() - 1)
    inner = text[head.end() : end]
    operands = tuple(part.split()[-1].lstrip('%') for part in _split(inner))
    return Instruction(name, shape, head[1], operands, inner, text[end + 1 :], is_root)


def _closing(text, start):
    """The index of the bracket that closes the one at `start`."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] in '({[') - (text[index] in ')}]')
        if not depth:
            return index
    raise ValueError(f'unbalanced brackets: {text[:80]!r}.')


def _split(text):
    """Splits a list at the commas outside of brackets."""
    depth, part = 0, ''
    for character in text:
        depth += (character in '({[') - (character in ')}]')
        if character == ',' and not depth:
            yield part
            part = ''
        else:
            part += character
    if part.strip():
        yield part


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


def result_bytes(instruction):
    """Bytes of a collective's result on each device. The shape of an asynchronous start
    may contain both inputs and results: only the results count."""
    if not instruction.op.endswith('-start'):
        return instruction.bytes
    parts = [part.strip() for part in _split(instruction.shape.strip()[1:-1])]
    # The start of an all-reduce of several arrays may have only results.
    several = instruction.collective == 'all-reduce' and not parts[0].startswith('(')
    return instruction.bytes if several or len(parts) < 2 else size(parts[1])


def group_size(instruction):
    """Number of devices in a collective. Raises ValueError if the text has no group."""
    line = instruction.rest
    if instruction.collective == 'collective-permute':
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
    """A collective among `group` devices that runs `times` per step.

    kind       such as 'all-gather'
    bytes      size of its result on each device
    is_async   whether the program has a start and a later end of it
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
    for each in program.instructions(name):
        collective = _collective_of(program, each)
        inner, times = None, 1
        if collective is not None:
            if (group := group_size(collective)) > 1:
                is_async = each.op.endswith('-start')
                size_ = result_bytes(collective)
                collectives.append(
                    Collective(collective.collective, group, size_, 1, is_async)
                )
        elif each.op == 'while':
            inner = _traffic(program, each.called)
            if (inner.bytes or inner.collectives) and each.trip_count is None:
                raise ValueError(f'the trip count of loop {each.name} is unknown')
            times = each.trip_count or 1
        elif each.op == 'conditional':
            branches = [_traffic(program, branch) for branch in each.branches]
            inner = min(branches, key=lambda one: one.bytes)
        elif each.op == 'call':
            inner = _traffic(program, each.called)
        elif not (each.op in _FREE or each.op.endswith(('-done', '-update'))):
            total += (
                0 if _multiplies(program, each) else _bytes_moved(program, name, each)
            )
        if inner is not None:
            total += times * inner.bytes
            collectives += [c._replace(times=c.times * times) for c in inner.collectives]
    return Traffic(total, tuple(collectives))


def _collective_of(program, each):
    """The collective that an instruction is or starts, or None."""
    if each.op == 'async-start' and each.called:
        inner = program.instructions(each.called)
        return next((one for one in inner if one.collective), None)
    return each if each.collective else None


def _multiplies(program, each):
    """Whether an instruction, or what it calls, multiplies matrices."""
    if each.op in ('dot', 'convolution'):
        return True
    if each.op == 'custom-call':
        return bool(_PRODUCTS.search(each.target))
    if each.op in ('fusion', 'async-start') and each.called in program.computations:
        inner = program.instructions(each.called)
        return any(_multiplies(program, one) for one in inner)
    return False


def _bytes_moved(program, name, each):
    """Bytes that an instruction of a computation reads and writes."""
    own = program.computations[name]
    operands = [own[operand] for operand in each.operands if operand in own]
    if each.op in ('fusion', 'fusion-start') and each.called in program.computations:
        inner = program.computations[each.called]
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
        if one.op != 'parameter' or not one.operand_text.isdecimal():
            continue
        index = int(one.operand_text)
        size_ = operands[index].bytes if index < len(operands) else one.bytes
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
