"""The text of a compiled program (HLO), read: computations, and what is sent.

What `compiled.as_text()` says, of CPUs, GPUs and TPUs. Nothing is run.
"""

import dataclasses
import functools
import math
import re

BYTES = dict(f64=8, s64=8, u64=8, f32=4, s32=4, u32=4, bf16=2, f16=2, s16=2, u16=2)
BYTES |= dict(s8=1, u8=1, pred=1, f8e4m3fn=1, f8e5m2=1)
KINDS = 'all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute'
_COLLECTIVE = re.compile(rf'^({KINDS})(?:-start)?$')
_ARRAY = re.compile(r'\b([a-z]+\d+\w*|pred)\[([\d,]*)\]')
_HEAD = re.compile(r'^(ENTRY )?%?([\w.-]+) \(.*\{$')
_LINE = re.compile(r'^\s+(ROOT )?%?([\w.-]+) = (.*)$')
_CALLED = re.compile(r'(?:calls|to_apply|body|called_computations)=\{?%?([\w.-]+)')
_BRANCHES = re.compile(r'(?:true|false)_computation=%?([\w.-]+)')


@dataclasses.dataclass(frozen=True)
class Instruction:
    """`%name = shape op(operands), rest`; `inside` are the operands as they stand, such
    as the number of a parameter."""

    name: str
    shape: str
    op: str
    operands: tuple
    inside: str
    rest: str
    is_root: bool

    @property
    def bytes(self):
        """Of the result; of a tuple, all of it."""
        return size(self.shape)

    @property
    def where(self):
        """What it computes, as jax names it: 'jit(step)/.../dot_general'; or ''."""
        found = re.search(r'op_name="([^"]*)"', self.rest)
        return found[1] if found else ''

    @property
    def target(self):
        """The name of a custom call; ''."""
        found = re.search(r'custom_call_target="([^"]*)"', self.rest)
        return found[1] if found else ''

    @property
    def called(self):
        """The computation that it runs, of one that runs one; None."""
        found = _CALLED.search(self.rest)
        return found[1] if found else None

    @property
    def branches(self):
        """The computations of which a conditional runs one."""
        listed = re.search(r'branch_computations=\{([^}]*)\}', self.rest)
        if listed:
            return re.findall(r'[\w.-]+', listed[1])
        return _BRANCHES.findall(self.rest)

    @property
    def turns(self):
        """How often a loop runs; None if the compiler does not know."""
        found = re.search(r'known_trip_count":\s*\{"n":\s*"(\d+)"', self.rest)
        return int(found[1]) if found else None

    @property
    def collective(self):
        """'all-gather' of what sends (once for what begins and what ends it); ''."""
        found = _COLLECTIVE.match(self.op)
        return found[1] if found else ''


@dataclasses.dataclass(frozen=True)
class Program:
    """{computation: {name: Instruction}}, in the order in which they run, and which of
    them is the whole."""

    computations: dict
    entry: str

    def of(self, name):
        """The instructions of a computation."""
        return self.computations[name].values()


@dataclasses.dataclass(frozen=True)
class Collective:
    """One between `group` devices, run `times`; `bytes` is what each then holds, `sent`
    what each sends, by rings. `where` is what it is for."""

    kind: str
    group: int
    bytes: int
    times: int
    where: str

    @property
    def sent(self):
        """Bytes of a device each time, as NCCL's rings send them."""
        share = (self.group - 1) / self.group
        parts = {'all-reduce': 2 * share, 'reduce-scatter': self.group - 1}
        parts |= {'collective-permute': 1}
        return self.bytes * parts.get(self.kind, share)


def parse(text):
    """The Program of a text. Raises ValueError for a text that has no ENTRY."""
    computations, entry, current = {}, None, None
    for line in text.splitlines():
        if head := _HEAD.match(line):
            current = computations[head[2]] = {}
            entry = head[2] if head[1] else entry
        elif current is not None and (found := _LINE.match(line)):
            made = _instruction(found[2], found[3], bool(found[1]))
            if made:
                current[made.name] = made
    if entry is None:
        raise ValueError(f'no ENTRY in this HLO text: {text[:80]!r}.')
    return Program(computations, entry)


def _instruction(name, text, is_root):
    cut = _closing(text, 0) + 1 if text.startswith('(') else text.find(' ')
    shape, text = text[:cut], text[cut:].lstrip()
    if not (head := re.match(r'([\w-]+)\(', text)):
        return None
    end = _closing(text, head.end() - 1)
    inside = text[head.end() : end]
    operands = tuple(part.split()[-1].lstrip('%') for part in _split(inside))
    return Instruction(name, shape, head[1], operands, inside, text[end + 1 :], is_root)


def _closing(text, start):
    """Where the bracket that opens at `start` closes."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] in '({[') - (text[index] in ')}]')
        if not depth:
            return index
    raise ValueError(f'a bracket does not close: {text[:80]!r}.')


def _split(text):
    """Parts of a list, by the commas that are in no brackets."""
    depth, part = 0, ''
    for letter in text:
        depth += (letter in '({[') - (letter in ')}]')
        if letter == ',' and not depth:
            yield part
            part = ''
        else:
            part += letter
    if part.strip():
        yield part


def shapes(text):
    """[(dtype, sizes)] of the arrays of a shape.

    >>> shapes('(bf16[2,3]{1,0}, f32[])')
    [('bf16', (2, 3)), ('f32', ())]
    """
    return [
        (kind, tuple(int(size) for size in sizes.split(',') if size))
        for kind, sizes in _ARRAY.findall(text)
    ]


def size(text):
    """Bytes of a shape; of a tuple, all of it.

    >>> size('(bf16[2,3]{1,0}, f32[])')
    16
    """
    return sum(BYTES.get(kind, 0) * math.prod(sizes) for kind, sizes in shapes(text))


def arrays(text):
    """The shapes of all arrays of floats in the program, a set of tuples."""
    return {
        sizes for kind, sizes in shapes(text) if kind in ('f32', 'bf16', 'f16', 'f64')
    }


def collectives(text):
    """The Collectives that a step runs: those in a loop as often as it turns.

    Those among one device only are left out. Raises ValueError for a loop with one whose
    turns are not known, and for a group that is not understood.
    """
    program = parse(text)
    return list(_sends(program, program.entry))


def _sends(program, name):
    for each in program.of(name):
        if each.collective and (group := members(each)) > 1:
            yield Collective(each.collective, group, held(each), 1, each.where)
        called = each.branches
        if each.op in ('call', 'async-start') and each.called:
            called = [each.called]
        for other in called:
            yield from _sends(program, other)
        if each.op == 'while':
            inside = list(_sends(program, each.called))
            if inside and not each.turns:
                raise ValueError(f'a loop that turns nobody knows how often: {each}')
            for one in inside:
                yield dataclasses.replace(one, times=one.times * each.turns)


def held(sender):
    """Bytes of what each device holds after a collective. What begins one may tell what
    goes in beside what comes out: the latter is taken."""
    if not sender.op.endswith('-start'):
        return sender.bytes
    parts = [part.strip() for part in _split(sender.shape.strip()[1:-1])]
    # An all-reduce of several arrays may give them side by side.
    several = sender.collective == 'all-reduce' and not parts[0].startswith('(')
    return sender.bytes if several or len(parts) < 2 else size(parts[1])


@functools.cache
def members(sender):
    """How many devices take part. Raises ValueError if the text does not say it."""
    line = sender.rest
    if sender.collective == 'collective-permute':
        return 2
    if mesh := re.search(r'replica_groups=mesh\[([^\]]*)\].*? \{([^}]*)\}', line):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", mesh[1]))
        return math.prod(int(sizes[axis]) for axis in re.findall(r"'(\w+)'", mesh[2]))
    if groups := re.search(r'replica_groups=\{\{([\d,]*)\}', line):
        return len(groups[1].split(','))
    if groups := re.search(r'replica_groups=\[\d+,(\d+)\]', line):
        return int(groups[1])
    raise ValueError(f'which devices take part? {sender}')
