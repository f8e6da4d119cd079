"""benchmarks/against_controls.py: the tests of a table of models beside controls."""

import importlib.util
import re
from pathlib import Path

import examined
import numpy as np
import pytest

from jepa_text.evaluation import evaluate
from jepa_text.measures import statistics

FILE = Path(__file__).parents[2] / 'benchmarks/against_controls.py'
SPEC = importlib.util.spec_from_file_location('against_controls', FILE)
against = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(against)


@pytest.mark.long
def test_a_bootstrap_over_examples_finds_what_is_there(rng):
    """Its interval is that of a mean, and it rejects equal sides as often as it says."""
    first_N, second_N = rng.random((2, 400)) < [[0.7], [0.5]]
    mean, low, high, p = against.bootstrap(first_N * 1.0, second_N * 1.0)
    assert mean == pytest.approx(first_N.mean() - second_N.mean()) and p < 0.001
    spread = np.std(first_N * 1.0 - second_N, ddof=1) / 20
    assert (high - low) / 2 == pytest.approx(1.96 * spread, rel=0.05)
    pairs = rng.random((60, 2, 100)) < 0.5
    found = [against.bootstrap(*(1.0 * pair))[-1] for pair in pairs]
    assert np.mean(np.array(found) <= 0.05) < 0.15
    assert against.bootstrap(first_N * 1.0, first_N * 1.0)[-1] == 1


@pytest.mark.slow
def test_an_evaluation_is_compared_with_its_controls(tmp_path, capsys):
    examined.saved_model(tmp_path / 'toy')
    examined.file_of(tmp_path)
    evaluate.evaluate(
        dict(
            models=(str(tmp_path / 'toy'),),
            tasks=(dict(name='labeled', path=str(tmp_path / 'sea.jsonl')),),
            finetuning=dict(steps=2, batch_size=8),
            learning_rates=(1e-3,),
            controls=('words', 'untrained'),
        ),
        tmp_path / 'out',
    )
    capsys.readouterr()
    against.main(tmp_path / 'out')
    said = capsys.readouterr().out
    rows = dict(re.findall(r'\| sea .*?\| (toy, untrained|TF-IDF) \| (.*)', said))
    chosen = {one.model: one for one in against.read(tmp_path / 'out')['sea']}
    model, other = chosen['toy'], chosen['toy, untrained']
    result = statistics.over_seeds(*statistics.paired(model.values(), other.values()))
    assert f'{result.difference:+.3f}' in rows['toy, untrained']
    drop = model.interval().value - chosen['TF-IDF'].interval().value
    assert f'{drop:+.3f}' in rows['TF-IDF'] and drop < 0
    # One comparison of each kind, so Holm changes nothing.
    p = float(rows['TF-IDF'].rstrip(' |').rpartition('|')[2])
    assert 0 < p < 0.05


def test_the_shipped_members_give_the_table_of_the_guide():
    """Without the sets, which the folder does not have."""
    six = Path(__file__).parents[2] / 'docs/results/six'
    found = {one.model: one for one in against.read(six)['trec']}
    assert len(found['small'].members) == len(found['small, untrained'].members) == 5
    scores = [f'{found[name].interval().value:.3f}' for name in ('small', 'TF-IDF')]
    guide = (six.parents[1] / 'guides/small.md').read_text()
    (row,) = re.findall(r'^\| TREC \|.*', guide, re.MULTILINE)
    assert all(score in row for score in scores)
