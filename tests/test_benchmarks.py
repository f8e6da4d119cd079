"""The harness of benchmarks: sides in turns, their table, and failures."""

from pathlib import Path

import children

BENCHMARKS = Path(__file__).parents[1] / 'benchmarks'
PROGRAM = """
import sys
sys.path.insert(0, {place!r})
import harness

def side(more, given):
    calls = []
    def work():
        calls.append(sum(range(3_000)))
        if given == 'broken':
            raise ValueError('this side is broken')
        return [1.0, len(calls) + more]
    return work

sides = {{'ours': lambda x: side(0, x), 'theirs': lambda x: side(0.5, x)}}
sides |= {{'cold': sides['ours'], 'odd': lambda x: side(float('nan'), x)}}
harness.main('the usage', sides, cold=['cold'])
"""


def run(folder, *words):
    """(exit code, standard output, standard error) of a benchmark of four sides."""
    path = folder / 'made_up.py'
    path.write_text(PROGRAM.format(place=str(BENCHMARKS)))
    done = children.run(path, *words, code=None)
    return done.returncode, done.stdout, done.stderr


def test_sides_are_compared_in_rounds(tmp_path):
    """A side is called twice, a cold one once."""
    code, out, _ = run(tmp_path, '--rounds', '2', 'x')
    assert code == 0 and out.count('round ') == 2
    for line in (
        'ours, s (clock): ',
        'cold, s (processors): ',
        'theirs / ours (clock): ',
    ):
        assert line in out
    assert 'largest difference of theirs: 5.0e-01' in out
    assert 'largest difference of cold: 1.0e+00' in out
    assert 'largest difference of odd: nan' in out


def test_failures_and_wrong_flags_end_it(tmp_path):
    code, _, errors = run(tmp_path, 'broken')
    assert code == 1 and 'this side is broken' in errors
    code, _, errors = run(tmp_path, 'x', '--sides=ours')
    assert code == 2 and 'unrecognized arguments: --sides=ours' in errors
    code, out, _ = run(tmp_path, '--help')
    assert code == 0 and 'the usage' in out
