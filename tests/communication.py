"""What a compiled step sends and holds, read from its text: for tests of partitioning."""

import math
import re
from typing import NamedTuple

BYTES = dict(f64=8, s64=8, u64=8, f32=4, s32=4, u32=4, bf16=2, f16=2, s8=1, u8=1, pred=1)
COLLECTIVES = ('all-reduce', 'all-gather', 'all-to-all', 'reduce-scatter')
COLLECTIVES = (*COLLECTIVES, 'collective-permute')
HEAD = re.compile(r'^(ENTRY )?%?([\w.-]+) \(.*\{$')
LINE = re.compile(
    r'^\s+(?:ROOT )?%?[\w.-]+ = (?P<shape>.*?) (?P<op>[\w-]+)\(.*?\)'
    r'(?P<rest>(, \w+=.*)?)$'
)
CALLED = re.compile(r'(?:calls|to_apply|body|\w+_computations?)=(\{[^}]*\}|[^\s,]+)')


class Collective(NamedTuple):
    """A collective, by the bytes of its result on each device and its runs per step."""

    kind: str
    bytes: int
    times: int


def collectives(text):
    """The Collectives of a step, of all branches; one in a loop counts once per
    iteration.

    Collectives of a single device are omitted. Raises ValueError for a collective in a
    loop with unknown trip count, or with a group that cannot be parsed.
    """
    computations, entry, current = {}, None, None
    for line in text.splitlines():
        if head := HEAD.match(line):
            current = computations[head[2]] = []
            entry = head[2] if head[1] else entry
        elif current is not None and (match := LINE.match(line)):
            current.append(match.groupdict())
    return list(_collectives(computations, entry))


def _collectives(computations, name):
    for each in computations[name]:
        op, rest = each['op'], each['rest']
        if op.endswith('-start') and op.removesuffix('-start') in COLLECTIVES:
            raise ValueError(f'a collective in two parts: {each}')
        if op in COLLECTIVES and _group_size(op, rest) > 1:
            shapes = _arrays(each['shape'])
            size = sum(BYTES[kind] * math.prod(sizes) for kind, sizes in shapes)
            yield Collective(op, size, 1)
        if op in ('call', 'conditional', 'while'):
            count = re.search(r'known_trip_count":\s*\{"n":\s*"(\d+)"', rest)
            times = int(count[1]) if count else op != 'while'
            inner = re.findall(r'[\w.-]+', ' '.join(CALLED.findall(rest)))
            for one in (x for name in inner for x in _collectives(computations, name)):
                if not times:
                    raise ValueError(f'unknown trip count of a loop: {each}')
                yield one._replace(times=one.times * times)


def _group_size(op, rest):
    if op == 'collective-permute':
        return 2
    if mesh := re.search(r'replica_groups=mesh\[([^\]]*)\].*? \{([^}]*)\}', rest):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", mesh[1]))
        return math.prod(int(sizes[axis]) for axis in re.findall(r"'(\w+)'", mesh[2]))
    if groups := re.search(r'replica_groups=\{\{([\d,]*)\}', rest):
        return len(groups[1].split(','))
    if groups := re.search(r'replica_groups=\[\d+,(\d+)\]', rest):
        return int(groups[1])
    raise ValueError(f'cannot parse the replica groups of {op}{rest}')


def _arrays(text):
    """[(dtype, sizes)] of the arrays in a text."""
    return [
        (kind, tuple(int(size) for size in sizes.split(',') if size))
        for kind, sizes in re.findall(r'\b([a-z]+\d+\w*|pred)\[([\d,]*)\]', text)
    ]


def arrays(text):
    """The set of shapes, as tuples, of all floating-point arrays in an HLO text."""
    floats = ('f32', 'bf16', 'f16', 'f64')
    return {sizes for kind, sizes in _arrays(text) if kind in floats}
