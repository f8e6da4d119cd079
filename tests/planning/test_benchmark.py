"""Benchmarks: the cases run in turns, and the table says what was measured."""

import json
from pathlib import Path

import numpy as np
import pytest
from ml_collections import ConfigDict

from jepa_text.config import schema
from jepa_text.planning import benchmark, worker

CONFIG = Path(__file__).parents[2] / 'configs' / 'benchmark.py'

ONE = dict(name='one', objective=dict(name='mlm'))


def module():
    names = {}
    exec(compile(CONFIG.read_text(), str(CONFIG), 'exec'), names)
    return names


def config(cases, **changes):
    made = ConfigDict(module()['get_config'](cases))
    made.update(vocab_size=64, rows=4, row_length=16, rounds=2, steps_a_round=1, warmup=1)
    sizes = dict(width=16, depth=1, heads=2, kv_heads=2, ffn_width=32)
    made.model = dict(name='transformer', scan=False, **sizes)
    made.update(changes)
    return made


@pytest.mark.slow
def test_cases_in_turns_and_their_table_without_what_cannot_be_made(tmp_path, capsys):
    made = config('objectives')
    splash = {**config('attention,xla,splash').cases[1], 'against': 'mlm'}
    made.cases = (made.cases[0], splash, made.cases[1])
    results = benchmark.benchmark(made, tmp_path)
    assert list(results) == ['mlm', 'clm']
    for result in results.values():
        assert len(result['seconds']) == 2 and min(result['seconds']) > 0
        assert result['tokens'] == 64 and result['flops'] > 0
        assert result['peak'] > 1e8 and result['memory'] > 2**26
    assert 'ratio' not in results['mlm']
    low, middle, high = results['clm']['ratio']
    assert low <= middle <= high
    saved = json.loads((tmp_path / 'benchmark.json').read_text())
    assert list(saved['results']) == list(results)
    assert saved['results']['clm']['seconds'] == results['clm']['seconds']
    assert list(saved['left_out']) == ['attention splash']
    printed = capsys.readouterr().out
    assert 'ratio' in printed and f'{middle:.3f}' in printed
    assert "left out. benchmark case 'attention splash'" in printed
    assert 'it runs on TPUs' in printed


def test_ratios_are_of_speeds_round_by_round():
    results = {
        'one': {'tokens': 100, 'seconds': [1.0, 2.0, 4.0]},
        'two': {'tokens': 50, 'seconds': [1.0, 1.0, 1.0]},
    }
    benchmark.compare(results, {'one': None, 'two': 'one'})
    np.testing.assert_allclose(results['two']['ratio'], [0.75, 1.0, 1.5])


@pytest.mark.parametrize(
    ('case', 'words'),
    [
        (dict(side='theirs'), 'ours, transformers'),
        (dict(objective=dict(name='mml')), "'mlm'"),
        (dict(model=dict(name='transformer', preset='huge')), "'huge'"),
    ],
)
def test_a_case_that_cannot_be_made_says_why(case, words):
    made = schema.resolved(benchmark.Config, schema.plain(config('objectives')))
    with pytest.raises(ValueError, match=words):
        worker.make({**made, **made['cases'][0], 'side': 'ours', **case})


def test_a_process_that_fails_or_is_killed_is_told_apart(tmp_path, monkeypatch):
    program = tmp_path / 'python'
    monkeypatch.setattr(benchmark.child.sys, 'executable', str(program))
    for does, error, words in (
        ('exit 1', RuntimeError, "case 'mlm' failed; its traceback"),
        ('kill -KILL $$', ValueError, "case 'mlm': ended by SIGKILL.*memory"),
    ):
        program.write_text(f'#!/bin/sh\n{does}\n')
        program.chmod(0o700)
        with pytest.raises(error, match=words):
            benchmark.ask(dict(name='mlm', side='ours'))


def test_what_a_worker_could_not_make_is_said_here(tmp_path):
    made = config('objectives')
    made.cases = ({**made.cases[0], 'side': 'theirs'},)
    with pytest.raises(ValueError, match="case 'mlm'.side='theirs'"):
        benchmark.benchmark(made, tmp_path)


def test_a_case_that_fails_in_a_later_round_is_left_out(tmp_path, monkeypatch):
    def ask(case):
        asked.append(case['name'])
        if asked.count('attention xla') == 2 and case['name'] == 'attention blockwise':
            raise ValueError('memory was full')
        return dict(seconds=1, tokens=1, flops=1, peak=1, memory=1, library='none')

    asked = []
    monkeypatch.setattr(benchmark, 'ask', ask)
    made = config('attention,xla,blockwise', rounds=3)
    assert list(benchmark.benchmark(made, tmp_path)) == ['attention xla']
    assert len(asked) == 5
    saved = json.loads((tmp_path / 'benchmark.json').read_text())
    assert saved['left_out'] == {'attention blockwise': 'memory was full'}


def test_a_sweep_changes_one_thing():
    made = config('attention,xla,splash,blockwise')
    assert [case['optional'] for case in made.cases] == [False, True, True]
    made = config('batch,2,6').to_dict()
    assert [benchmark.case_of(made, case)['rows'] for case in made['cases']] == [2, 6]
    made = config('remat,none,names').to_dict()
    models = [benchmark.case_of(made, case)['model'] for case in made['cases']]
    assert [model.pop('remat') for model in models] == ['none', 'names']
    assert models[0] == models[1]


def test_a_preset_sets_the_size():
    made = module()['get_config']('objectives').to_dict()
    made = schema.resolved(benchmark.Config, made)
    assert made['model'].keys().isdisjoint(('width', 'depth', 'heads', 'ffn_width'))
    other = dict(name='bert', preset='base')
    assert benchmark.case_of(made, ONE | {'model': other})['model'] == other


def test_an_unknown_comparison_is_named():
    with pytest.raises(ValueError, match='telemetry'):
        config('speed')
    with pytest.raises(ValueError, match="'batch,16,many'.*batch,16,32"):
        config('batch,16,many')


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        (dict(rounds=0), 'rounds=0'),
        (dict(warmup=0), 'warmup=0'),
        (dict(cases=(ONE, ONE)), 'same name: one'),
        (dict(cases=(ONE | {'against': 'three'},)), "against 'three'.*: one"),
        (dict(cases=(ONE | {'agianst': 'one'},)), "no key 'agianst'.*'against'"),
    ],
)
def test_bad_settings_are_named_before_anything_runs(tmp_path, changes, words):
    made = config('objectives')
    made.update(changes)
    with pytest.raises(ValueError, match=words):
        benchmark.benchmark(made, tmp_path)


@pytest.mark.parametrize(('asked', 'times'), [(True, 2), (False, 1)])
def test_both_sides_keep_their_memory_unless_told(monkeypatch, asked, times):
    def make(case):
        raise ValueError('enough')

    called = []
    monkeypatch.setattr(worker, 'make', make)
    monkeypatch.setattr(worker.allocator, 'keep_freed_memory', lambda: called.append(1))
    made = config('peer', peer_keeps_memory=asked, compilation_cache='').to_dict()
    for case in made['cases'][:2]:
        answer = worker.measured(benchmark.case_of(made, case))
        assert answer == {'error': 'enough', 'refused': True}
    assert len(called) == times


@pytest.mark.peer
def test_the_peer_steps_on_the_same_batches(tmp_path):
    pytest.importorskip('torch')
    pytest.importorskip('transformers')
    made = config('peer', compile=False, rounds=1)
    results = benchmark.benchmark(made, tmp_path)
    assert results['mlm']['parameters'] == results['mlm by transformers']['parameters']
    assert results['clm']['parameters'] == results['clm by transformers']['parameters']
    assert results['mlm by transformers']['flops'] == results['mlm']['flops']


@pytest.mark.peer
@pytest.mark.parametrize('objective', ['mlm', 'clm'])
def test_by_flash_kernels_the_peer_computes_the_same(objective):
    pytest.importorskip('torch')
    pytest.importorskip('transformers')
    losses = []
    for attention in ('sdpa', 'flash'):
        made = config('peer', compile=False, peer_attention=attention).to_dict()
        case = benchmark.case_of(
            made,
            dict(name='x', side='transformers', objective=dict(name=objective)),
        )
        work = worker.make(case)
        losses.append(work._run(**next(work._batches)).loss.item())
        # By them alone: it would fail where they cannot.
        work.steps(1)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
