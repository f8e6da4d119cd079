"""What a compiled step sends and holds, read from its text: for tests of partitioning."""

from typing import NamedTuple

from jepa_text.planning import hlo


class Collective(NamedTuple):
    """A collective among `group` devices that runs `times` per step.

    `bytes` is the size of its result on each device.
    """

    kind: str
    group: int
    bytes: int
    times: int


def collectives(text):
    """The Collectives that a step runs; a collective in a loop counts once per iteration.

    Collectives of a single device are omitted. Raises ValueError for a collective in a
    loop with unknown trip count, or with a group that cannot be parsed.
    """
    program = hlo.parse(text)
    return list(_collectives(program, program.entry))


def _collectives(program, name):
    for each in program.instructions(name):
        if each.collective and (group := hlo.group_size(each)) > 1:
            yield Collective(each.collective, group, hlo.result_bytes(each), 1)
        called = each.branches
        if each.op in ('call', 'async-start') and each.called:
            called = [each.called]
        for other in called:
            yield from _collectives(program, other)
        if each.op == 'while':
            body = list(_collectives(program, each.called))
            if body and not each.trip_count:
                raise ValueError(f'unknown trip count of a loop: {each}')
            for one in body:
                yield one._replace(times=one.times * each.trip_count)


def arrays(text):
    """The set of shapes, as tuples, of all floating-point arrays in an HLO text."""
    floats = ('f32', 'bf16', 'f16', 'f64')
    return {sizes for kind, sizes in hlo.shapes(text) if kind in floats}
