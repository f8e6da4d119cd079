"""What a compiled step sends and holds, read from its text: for tests of partitioning."""

from jepa_text.planning import hlo


def collectives(text):
    """The hlo.Collectives of a step, of all branches; one in a loop counts once per
    iteration.

    Collectives of a single device are omitted. Raises ValueError for a collective in a
    loop with unknown trip count, or with a group that cannot be parsed.
    """
    program = hlo.parse(text)
    return list(_collectives(program, program.entry))


def _collectives(program, name):
    for each in program.computations[name].values():
        one = hlo.collective(program, name, each)
        if one and one.group > 1:
            yield one
        if each.op in ('call', 'conditional', 'while'):
            times = each.trip_count if each.op == 'while' else 1
            for one in (x for name in each.called for x in _collectives(program, name)):
                if not times:
                    raise ValueError(f'unknown trip count of a loop: {each}')
                yield one._replace(times=one.times * times)


def arrays(text):
    """The set of shapes, as tuples, of all floating-point arrays in an HLO text."""
    floats = ('f32', 'bf16', 'f16', 'f64')
    return {sizes for kind, sizes in hlo.shapes(text) if kind in floats}
