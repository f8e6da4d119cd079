"""Benchmarks: rounds of cases, ratios, skipped cases, and settings."""

import json
from pathlib import Path

import pytest
from ml_collections import ConfigDict

from jepa_text.planning import benchmark, worker
from jepa_text.settings import config_file, schema

CONFIG = Path(__file__).parents[2] / 'configs' / 'benchmark.py'

ONE = dict(name='one', objective=dict(name='mlm'))


def config(argument, **changes):
    made = ConfigDict(config_file.read(f'benchmark:{argument}'))
    made.update(
        vocab_size=64, rows=4, row_length=16, rounds=2, steps_a_round=1, warmup_steps=1
    )
    sizes = dict(width=16, depth=1, heads=2, kv_heads=2, ffn_width=32)
    made.model = dict(name='transformer', scan=False, **sizes)
    made.update(changes)
    return made


@pytest.mark.long
def test_rounds_of_cases_and_their_table(tmp_path, capsys):
    made = config('objectives')
    made.cases = made.cases[:2]
    results = benchmark.benchmark(made, tmp_path)
    assert list(results) == ['mlm', 'clm']
    for result in results.values():
        assert len(result['seconds']) == 2 and min(result['seconds']) > 0
        assert result['tokens'] == 64 and result['flops'] > 0
        assert result['peak'] == 0 and result['memory'] > 2**26
    assert 'ratio' not in results['mlm']
    saved = json.loads((tmp_path / 'benchmark.json').read_text())
    assert saved['results'] == results
    printed = capsys.readouterr().out
    assert 'ratio' in printed and f'{results["clm"]["ratio"]:.3f}' in printed


def test_ratios_are_per_round():
    one = [{'tokens': 100, 'seconds': seconds} for seconds in (1.0, 2.0, 4.0)]
    two = [{'tokens': 50, 'seconds': 1.0}] * 3
    results = benchmark.merged({'one': one, 'two': two}, {'one': None, 'two': 'one'})
    assert results['two']['ratio'] == 1.0 and 'ratio' not in results['one']


def test_mfu_is_of_the_peak_of_a_known_device():
    result = dict(tokens=1, flops=3.0, seconds=[1.0], memory=2**20)
    assert benchmark.table_row('x', result | {'peak': 4.0})[3] == '75.0%'
    assert benchmark.table_row('x', result | {'peak': 0})[3] == ''


def test_a_case_changes_one_setting():
    made = config('objectives').to_dict()
    cases = [ONE | dict(rows=6), ONE | dict(model=dict(remat='names')), ONE]
    few, names, plain = (benchmark.resolve_case(made, case) for case in cases)
    assert few | {'rows': 4} == plain and few['rows'] == 6
    assert names['model'] == plain['model'] | {'remat': 'names'} != plain['model']


def test_preset_sets_the_size():
    made = config_file.read('benchmark:objectives')
    made = schema.resolved(benchmark.Config, made)
    assert made['model'].keys().isdisjoint(('width', 'depth', 'heads', 'ffn_width'))
    other = dict(name='bert', preset='base')
    assert benchmark.resolve_case(made, ONE | {'model': other})['model'] == other


@pytest.mark.parametrize(
    'changes, words',
    [
        (dict(rounds=0), 'rounds=0'),
        (dict(warmup_steps=0), 'warmup_steps=0'),
        (dict(cases=(ONE, ONE)), 'duplicate case names: one'),
        (dict(cases=(ONE | {'against': 'three'},)), "against='three'.*: one"),
        (dict(cases=(ONE | {'agianst': 'one'},)), "no key 'agianst'.*'against'"),
        (dict(cases=(ONE | {'side': 'theirs'},)), "case 'one'.side='theirs'"),
        (dict(cases=(ONE | {'model': 3},)), "case 'one'.model=3 must be a section"),
        # This is found by the process of the case.
        pytest.param(
            dict(cases=(ONE | {'objective': {'name': 'mml'}},)),
            "case 'one': .*'mlm'",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_invalid_settings_are_rejected(tmp_path, changes, words):
    made = config('objectives')
    made.update(changes)
    with pytest.raises(ValueError, match=words):
        benchmark.benchmark(made, tmp_path)
    assert not (tmp_path / 'benchmark.json').exists()


@pytest.mark.parametrize(
    'other',
    [
        dict(optimizer=dict(name='muon')),
        dict(accumulate=2, rows=8),
        dict(model=dict(name='modernbert', preset='tiny')),
        dict(model=dict(qk_norm=True)),
        dict(model=dict(head_width=32)),
        dict(model=dict(window=4)),
        dict(objective=dict(name='hybrid')),
        dict(objective=dict(name='ijepa')),
    ],
)
def test_what_the_peer_does_not_have_is_refused(other):
    made = config('peer', compile=False).to_dict()
    named = dict(name='x', side='transformers', objective=dict(name='mlm'))
    with pytest.raises(
        ValueError, match='the side of transformers has mlm and clm, adamw'
    ):
        worker.make(benchmark.resolve_case(made, named | other))


@pytest.mark.peer
def test_peer_uses_the_same_batches(tmp_path):
    pytest.importorskip('torch')
    pytest.importorskip('transformers')
    made = config('peer', compile=False, rounds=1)
    results = benchmark.benchmark(made, tmp_path)
    assert results['mlm']['parameters'] == results['mlm by transformers']['parameters']
    assert results['clm']['parameters'] == results['clm by transformers']['parameters']
    assert results['mlm by transformers']['flops'] == results['mlm']['flops']


@pytest.mark.peer
@pytest.mark.parametrize('objective', ['mlm', 'clm'])
def test_peer_computes_the_same_without_a_mask(objective):
    """Equals the attention of transformers; flash kernels support the step."""
    torch = pytest.importorskip('torch')
    pytest.importorskip('transformers')
    made = config('peer', compile=False).to_dict()
    named = dict(name='x', side='transformers', objective=dict(name=objective))
    work = worker.make(benchmark.resolve_case(made, named))
    batch = next(work._batches)
    flash = torch.nn.attention.SDPBackend.FLASH_ATTENTION
    with torch.nn.attention.sdpa_kernel(flash):
        own = work._model(**batch).loss.item()
    work._model.set_attn_implementation('sdpa')
    assert own == pytest.approx(work._model(**batch).loss.item(), rel=1e-5)


@pytest.mark.peer
def test_a_masked_head_of_the_peer_has_the_same_loss():
    pytest.importorskip('torch')
    pytest.importorskip('transformers')
    made = config('peer', compile=False).to_dict()
    named = dict(name='x', side='transformers', objective=dict(name='mlm'))
    losses = []
    for masked_head in (False, True):
        case = benchmark.resolve_case(made, named | dict(masked_head=masked_head))
        work = worker.make(case)
        losses.append(work._run(**next(work._batches)).item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
