"""Parser for the text of compiled programs (HLO): instructions, shapes, collectives.

Reads `compiled.as_text()` of programs for CPUs, GPUs and TPUs. Nothing is executed.
"""

import dataclasses
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
    def op_name(self):
        """jax's name of the operation, such as 'jit(step)/.../dot_general', or ''."""
        found = re.search(r'op_name="([^"]*)"', self.rest)
        return found[1] if found else ''

    @property
    def target(self):
        """The target of a custom call, or ''."""
        found = re.search(r'custom_call_target="([^"]*)"', self.rest)
        return found[1] if found else ''

    @property
    def called(self):
        """The name of the called computation, or None."""
        found = _CALLED.search(self.rest)
        return found[1] if found else None

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
        found = re.search(r'known_trip_count":\s*\{"n":\s*"(\d+)"', self.rest)
        return int(found[1]) if found else None

    @property
    def collective(self):
        """The kind of a collective, such as 'all-gather', or ''. Of an asynchronous pair
        only the start counts."""
        found = _COLLECTIVE.match(self.op)
        return found[1] if found else ''


@dataclasses.dataclass(frozen=True)
class Program:
    """`computations` {name: {name: Instruction}}, in execution order, and the name of the
    entry computation."""

    computations: dict
    entry: str

    def instructions(self, name):
        """The instructions of a computation."""
        return self.computations[name].values()


def ring_bytes(kind, group, result_bytes):
    """Bytes that each device sends in a collective, with the ring algorithms of NCCL."""
    share = (group - 1) / group
    factors = {'all-reduce': 2 * share, 'reduce-scatter': group - 1}
    factors |= {'collective-permute': 1}
    return result_bytes * factors.get(kind, share)


def parse(text):
    """The Program of an HLO text. Raises ValueError if the text has no ENTRY."""
    computations, entry, current = {}, None, None
    for line in text.splitlines():
        if head := _HEAD.match(line):
            current = computations[head[2]] = {}
            entry = head[2] if head[1] else entry
        elif current is not None and (found := _LINE.match(line)):
            instruction = _instruction(found[2], found[3], bool(found[1]))
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
