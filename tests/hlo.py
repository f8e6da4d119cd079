"""What a compiled program sends between devices and what it holds, read from its text."""

import dataclasses
import math
import re

BYTES = dict(f64=8, s64=8, u64=8, f32=4, s32=4, u32=4, bf16=2, f16=2, s8=1, u8=1, pred=1)
KINDS = 'all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute'
_ARRAY = re.compile(r'\b([a-z]+\d*)\[([\d,]*)\]')
_START = re.compile(r'^(ENTRY )?%?([\w.-]+) \(.*\{$')
_COLLECTIVE = re.compile(rf' = (.*?) ({KINDS})(?:-start)?\(')
_BRANCHES = re.compile(r'(?:true|false)_computation=%?([\w.-]+)')


@dataclasses.dataclass(frozen=True)
class Collective:
    """One between `group` devices, run `times`; `bytes` is what each then holds."""

    kind: str
    group: int
    bytes: int
    times: int
    line: str


def collectives(text):
    """All that a step runs: those in a loop as often as it turns.

    Those among one device only are left out. Raises ValueError for a loop with one whose
    turns are not known, and for a group that is not understood.
    """
    bodies, entry = _computations(text)
    return list(_walk(bodies, entry))


def arrays(text):
    """The shapes of all arrays of floats in the program, a set of tuples."""
    return {
        tuple(int(size) for size in sizes.split(',') if size)
        for kind, sizes in _ARRAY.findall(text)
        if kind in ('f32', 'bf16', 'f16')
    }


def _computations(text):
    bodies, entry, name = {}, None, None
    for line in text.splitlines():
        if start := _START.match(line):
            name = start[2]
            bodies[name] = []
            entry = name if start[1] else entry
        elif name is not None:
            bodies[name].append(line)
    return bodies, entry


def _walk(bodies, name):
    for line in bodies[name]:
        if (found := _COLLECTIVE.search(line)) and (group := _group(line)) > 1:
            yield Collective(found[2], group, _bytes(found[1]), 1, line.strip())
        called = _BRANCHES.findall(line)
        for branches in re.findall(r'branch_computations=\{([^}]*)\}', line):
            called += re.findall(r'%?([\w.-]+)', branches)
        if ' call(' in line:
            called += re.findall(r'to_apply=%?([\w.-]+)', line)
        for other in called:
            yield from _walk(bodies, other)
        if ' while(' in line:
            inside = list(_walk(bodies, re.search(r'body=%?([\w.-]+)', line)[1]))
            turns = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
            if inside and not turns:
                raise ValueError(f'a loop that turns nobody knows how often: {line}')
            for each in inside:
                yield dataclasses.replace(each, times=each.times * int(turns[1]))


def _group(line):
    """How many devices take part."""
    if 'collective-permute' in line:
        return 2
    if mesh := re.search(r'replica_groups=mesh\[([^\]]*)\].*? \{([^}]*)\}', line):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", mesh[1]))
        return math.prod(int(sizes[axis]) for axis in re.findall(r"'(\w+)'", mesh[2]))
    if groups := re.search(r'replica_groups=\{\{([\d,]*)\}', line):
        return len(groups[1].split(','))
    if groups := re.search(r'replica_groups=\[\d+,(\d+)\]', line):
        return int(groups[1])
    raise ValueError(f'which devices? {line}')


def _bytes(shapes):
    return sum(
        BYTES[kind] * math.prod(int(size) for size in sizes.split(',') if size)
        for kind, sizes in _ARRAY.findall(shapes)
        if kind in BYTES
    )
