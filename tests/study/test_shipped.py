"""The shipped studies: every scale of each matches its name and can be built."""

import functools

import draws
import pytest
from config_of import FOLDER, NAMES, share_of_clm, shipped

from jepa_text.running import budget
from jepa_text.settings import config_file
from jepa_text.study import arms, finetuned, forecast, members, papers, study

SCALES = ('paper', 'desk', 'smoke')


def of_one_seed(config):
    """Returns {run: its config}."""
    prepare = {'prepare': config['prepare']}
    made = members.configs(config, 'rows')
    return {one.rpartition('/')[0]: own | prepare for one, own in made.items()}


def runs(name, scale):
    return of_one_seed(shipped(name, scale, 1))


@functools.cache
def planned(name, scale):
    """Returns the plan of all runs of one seed; none has begun."""
    return forecast.of_members(runs(name, scale), FOLDER / 'nowhere')


@pytest.mark.parametrize('scale', SCALES)
@pytest.mark.parametrize('name', NAMES)
def test_every_study_has_seeds_and_its_claims_at_every_scale(name, scale):
    config = shipped(name, scale)
    assert len(config['seeds']) == (2 if scale == 'smoke' else 5)
    assert config['report']['claims'] == name and config['name'] == f'{name}_{scale}'
    count = len(config['runs']) * len(config['seeds'])
    assert len(members.configs(config, 'rows')) == count
    finetuned.check(config['examine'], tasks=False)
    source = config['prepare']['source']['name']
    assert source == ('jsonl' if scale == 'paper' else 'bundled')


@pytest.mark.parametrize('name', NAMES)
def test_every_claim_can_be_measured_at_some_scale_of_its_study(name):
    measured = {*arms.GEOMETRY, arms.LOSS, arms.PROBES}
    for config in (shipped(name, scale) for scale in SCALES):
        measured |= {f'probe {task}' for task in config['study']['tasks']}
        for exam in config['examine']:
            measured |= {exam, f'{exam} {arms.SENSITIVITY}'}
    assert all(measured & {*claim['metrics']} for claim in papers.claims_of(name))


@pytest.mark.parametrize('scale', draws.in_stages('desk', 'paper', 'smoke'))
@pytest.mark.parametrize('name', NAMES)
def test_every_run_of_every_study_can_be_planned(name, scale):
    """Splits, schedules, balances and baselines fit together."""
    found = planned(name, scale)
    assert all(one.trained > 0 for one in found)
    if name == 'data_efficiency':
        # One trunk per objective; other runs branch from it and train one step.
        steps = sorted(one.trained for one in found)
        assert sum(steps[-2:]) >= 0.99 * sum(steps) - 12


@pytest.mark.slow
def test_the_grid_of_the_paper_takes_122_thousand_steps_besides_its_two_base_runs(
    tmp_path,
):
    found = planned('pfs', 'paper')
    assert sum(one.steps for one in found) == 380_000
    trained = {one.name: one.trained for one in found}
    # The paper already had its runs of 42,000 steps of one objective.
    first = runs('pfs', 'paper')
    base = forecast.of_members({k: first[k] for k in ('mlm_42k', 'clm_42k')}, tmp_path)
    assert sum(trained.values()) - sum(one.trained for one in base) == 122_000


@pytest.mark.slow
def test_continued_pretraining_of_the_paper_takes_26_thousand_steps_per_start():
    found = planned('cpt', 'paper')
    trained = {one.name: one.trained for one in found}
    for name in ('mlm', 'clm'):
        assert trained[f'{name}_0'] == 42_000
        further = sum(trained[f'{name}_{k}k'] for k in (22, 12, 2))
        assert (
            further == 26_001
        )  # one step is trained twice, as each run takes its own last step


def test_splits_are_those_of_the_tables():
    for scale in ('paper', 'desk', 'smoke'):
        made = runs('pfs', scale)
        shares = {name: share_of_clm(one) for name, one in made.items()}
        assert shares['clm25_42k'] == pytest.approx(10 / 42, abs=0.01)
        assert shares['clm50_22k'] == pytest.approx(0.5, abs=0.01)
        assert shares['clm_12k'] == 1 and shares['mlm_12k'] == 0
    (phase,) = made['mlm_42k']['phases']
    assert made['mlm_42k']['steps'] == 42 and phase['objective']['rate'] == 0.4


def test_the_paper_scale_has_the_numbers_of_the_paper():
    one = runs('masking_rate', 'paper')
    assert len(one) == 9 + 2 * 5
    assert [one[f'mlm40{size}']['model']['preset'] for size in ('', '_210m', '_1b')] == [
        '610m',
        '210m',
        '1b',
    ]
    schedule = one['mlm40']['schedule']
    assert schedule == dict(name='wsd', peak=5e-4, warmup_steps=2000, decay_steps=2000)
    assert one['mlm40']['data']['batch_size'] * 2048 == 2_359_296
    rates = {run['phases'][-1]['objective'].get('rate') for run in one.values()}
    assert rates == {0.2, 0.3, 0.4, 0.5, None}


def test_every_balance_has_the_same_baselines():
    made = runs('jepa_vs_mlm', 'desk')
    hybrids = [n for n, one in made.items() if n[:3] != 'mlm']
    objectives = [made[n]['phases'][0]['objective'] for n in hybrids]
    assert {one['balance']['name'] for one in objectives} == {
        *('sigmoid', 'fixed', 'schedule', 'gradient_ratio')
    }
    masks = [one['mlm'] for one in objectives]
    tokens = dict(made['mlm']['phases'][0]['objective'])
    assert tokens.pop('name') == 'mlm' and all(one == tokens for one in masks)
    assert made['mlm_flops']['baseline'] == 'flops'


@pytest.mark.parametrize('scale', draws.in_stages('small', 'smoke'))
def test_arms_of_downstream_differ_in_their_phases_alone(scale, tmp_path):
    """Equal steps, but for the baseline of equal FLOPs; a quarter of CLM in each of its
    places; what is compared exists, and shared steps are trained once."""
    (tmp_path / 'sets').mkdir()
    (tmp_path / 'sets/trec.jsonl').touch()
    name = f'studies/downstream:scale={scale},corpus={tmp_path},seeds=1'
    config = study.plain(config_file.read(name))
    made = of_one_seed(config)
    found = {one.name: one for one in forecast.of_members(made, tmp_path)}
    steps = config['steps']
    assert steps == (16 if scale == 'smoke' else 525)
    assert {name for name, one in found.items() if one.steps != steps} == {'mlm_flops'}
    flops = [found[name].flops(0) for name in ('mlm_flops', 'jepa_mlm')]
    assert flops[0] == pytest.approx(flops[1], rel=0.05)
    assert found['clm_jepa_mlm'].trained < steps and found['detour'].trained < steps
    spans = {
        name: budget.spans(own['phases'], steps)
        for name, own in made.items()
        if any(one['objective']['name'] == 'clm' for one in own['phases'])
    }
    quarter = steps // 4
    assert spans['clm_mlm'] == spans['clm_jepa_mlm'] == [(0, quarter), (quarter, steps)]
    (_, start), (_, stop), _ = spans['detour']
    assert stop - start == quarter and abs((start + stop) - steps) <= 1
    assert {name for pair in config['report']['compare'] for name in pair} == set(made)
    finetuned.check(config['examine'], tasks=False)
