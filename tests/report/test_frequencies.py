"""Held-out losses are compared with the unigram entropy; failed runs are reported."""

import math

import draws
import numpy as np
import pytest
import tiny
from numpy.testing import assert_array_equal

from jepa_text.data import pipeline
from jepa_text.report import frequencies
from jepa_text.running import metrics
from jepa_text.training import heldout


@pytest.mark.parametrize('learns', draws.in_stages(False, True), ids=['idle', 'busy'])
def test_a_run_that_learned_nothing_warns(folder, tmp_path, capsys, learns):
    config = tiny.config(
        folder,
        phases=tiny.phases('mlm', rate=0.3),
        mesh=dict(data=-1),
        steps=80 if learns else 1,
        schedule=dict(name='constant', value=1e-2 if learns else 1e-9),
        evaluate=dict(every_steps=80, rate=0.15, max_rows=8),
        telemetry=dict(every_steps=0),
    )
    tiny.train(config, tmp_path / 'run')
    printed = capsys.readouterr().err
    compared = 'better' if learns else 'worse'
    assert f'{compared} than token frequencies alone' in printed
    assert ('learned nothing' in printed) is not learns
    rows = metrics.read(tmp_path / 'run')
    # Logged with every evaluation, and always the same.
    logged = [row for row in rows if 'heldout/mlm_loss' in row]
    assert len(logged) == 2
    assert len({row[frequencies.UNIGRAM] for row in logged}) == 1


def test_the_entropy_is_of_the_evaluated_rows(folder):
    rows = pipeline.Rows(tiny.rows(folder), 'heldout')
    seen = [rows[i]['tokens'][rows[i]['segment_ids'] > 0] for i in range(4)]
    words = [token for token in np.concatenate(seen) if token > 5]
    _, counts = np.unique(words, return_counts=True)
    share = counts / counts.sum()
    found = heldout.entropy(heldout.counts_of_rows(rows, range(6), max_rows=4))
    assert found == pytest.approx(-(share * np.log(share)).sum())
    whole_V = heldout.counts_of_rows(rows, range(6), max_rows=10**9)
    assert_array_equal(whole_V, heldout.counts_of_rows(rows, range(6), len(rows)))


@pytest.mark.parametrize(
    'values, objective, printed',
    [
        ({'mlm': 5.0, 'clm': 9.0}, 'mlm', 'masked loss: 5.000'),
        ({'mlm': 9.0, 'clm': 5.0}, 'clm', 'causal loss: 5.000'),
        ({'mlm': 9.0, 'clm': 9.0, 'mntp': 5.0}, 'mntp', '(MNTP) loss: 5.000'),
        ({'mlm': 9.0, 'own': 5.0}, 'own', 'own loss: 5.000'),
    ],
)
def test_each_objective_is_measured_by_its_own_loss(values, objective, printed):
    values = {f'heldout/{name}_loss': loss for name, loss in values.items()}
    values |= {frequencies.UNIGRAM: 6.4, 'heldout/mlm_accuracy': 0.1}
    (line,) = frequencies.sentences(values, objective)
    assert printed in line and '1.40 better' in line


@pytest.mark.parametrize('loss', [6.4, 6.399, 7.0, math.nan, math.inf])
def test_no_better_is_not_learned(loss):
    values = {'heldout/mlm_loss': loss, frequencies.UNIGRAM: 6.4}
    assert 'learned nothing' in frequencies.sentences(values, 'mlm')[1]
    assert '-0' not in frequencies.sentences(values, 'mlm')[0]


def test_without_both_values_there_is_no_sentence():
    assert frequencies.sentences({}, 'mlm') == []
    assert frequencies.sentences({'heldout/mlm_loss': 5.0}, 'mlm') == []
    assert frequencies.sentences({frequencies.UNIGRAM: 5.0}, 'mlm') == []
