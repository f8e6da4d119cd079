"""Fairness checks find equal and different treatment in logs and configs."""

import copy

import made_up
import pytest
from numpy.testing import assert_allclose

from jepa_text.study import budgets, fairness


@pytest.fixture(scope='module')
def study():
    return made_up.study(seeds=2)


def found(study, change=None):
    """Returns {check: result} of a study in which one member was changed."""
    # Copied, because members share equal configs and logs.
    configs = {member: copy.deepcopy(one) for member, one in study.configs.items()}
    logs = copy.deepcopy(study.logs)
    if change:
        change(configs['clm25_22k/seed_1'], logs['clm25_22k/seed_1'])
    checked = fairness.checks(study.results['recipes'], configs, logs)
    assert all(check.of.endswith('30 runs, 2 seeds') for check in checked)
    return {check.what: check.result for check in checked}


def test_a_fair_study_passes_all_checks(study):
    said = found(study)
    assert len(said) == 6 and all(one.startswith(fairness.SAME) for one in said.values())
    # Two seeds of 42 steps; CLM and MLM steps are compared separately.
    assert said['same rows in the same order'] == 'same, 84 values'


def nudge(key, step):
    def change(config, log):
        next(row for row in log if row['step'] == step and key in row)[key] += 1

    return change


def set_to(section, **keys):
    return lambda config, log: config[section].update(keys)


@pytest.mark.parametrize(
    'what, change',
    [
        ('same model and initialization', set_to('model', depth=3)),
        ('same losses at the start', nudge('heldout/clm_loss', 0)),
        ('same corpus, batch size and row length', set_to('data', batch_size=8)),
        ('same rows in the same order', nudge('train/tokens', 17)),
        ('same masks for equal masking options', nudge('train/masked_tokens', 3)),
        ('same masks for equal masking options', nudge('train/masked_tokens', 21)),
        ('same optimizer and clipping', set_to('optimizer', b2=0.5)),
    ],
)
def test_differences_are_reported(study, what, change):
    said = found(study, change)
    assert said[what].startswith('differs: ') and 'clm25_22k/seed_1' in said[what]
    others = [one for name, one in said.items() if name != what]
    assert all(one.startswith(fairness.SAME) for one in others)


def test_masks_of_other_rates_are_not_compared(study):
    def change(config, log):
        config['phases'][1]['objective']['rate'] = 0.2
        for row in log:
            if row['step'] > 5 and 'train/masked_tokens' in row:
                row['train/masked_tokens'] += 100

    assert found(study, change)['same masks for equal masking options'].startswith('same')


def test_masking_depends_on_parts_of_a_mixture_and_the_span_of_a_changing_rate():
    mixed = dict(name='mixture', parts=('clm', 'mlm'))
    masks = [fairness._masking(mixed | {'shares': x}, 0, 6) for x in ((1, 3), (3, 1))]
    assert masks[0] != masks[1]
    for rate, count in ((0.3, 1), (dict(name='linear'), 2)):
        objective = dict(name='mlm', rate=rate)
        assert len({fairness._masking(objective, 0, stop) for stop in (3, 6)}) == count


@pytest.mark.parametrize('mlm', [{}, dict(mlm=None), dict(mlm=dict(rate=0.2))])
def test_a_latent_objective_may_have_no_options_for_tokens(study, mlm):
    def change(config, log):
        config['phases'][-1]['objective'] = dict(name='hybrid', **mlm)

    assert found(study, change)['same masks for equal masking options'].startswith('same')


def test_missing_logs_are_reported_as_unknown(study):
    logs = {member: [] for member in study.logs}
    checked = fairness.checks(study.results['recipes'], study.configs, logs)
    by_log = [one for one in checked if one.how.startswith('logs')]
    assert len(by_log) == 3
    for one in by_log:
        assert one.result == fairness.UNKNOWN and one.of == '0 of 30 runs, 2 seeds'


def test_a_budget_adds_up_over_phases():
    made = budgets.Budget(((0, 10, 100, 5.0), (10, 30, 100, 7.0)), 9)
    assert made.steps == 30
    assert_allclose(made.flops([0, 4, 10, 11, 30]), [0, 20, 50, 57, 190])
    assert_allclose(made.tokens([0, 30]), [0, 3000])


def test_flops_are_those_of_the_traced_program(study):
    firsts = {arm: study.configs[own[0]] for arm, own in study.members.items()}
    some = {arm: firsts[arm] for arm in ('mlm_42k', 'clm_42k', 'clm50_42k', 'mlm_12k')}
    found = budgets.of_runs(some)
    whole = {arm: float(one.flops(one.steps)) for arm, one in found.items()}
    assert whole['clm50_42k'] == pytest.approx((whole['mlm_42k'] + whole['clm_42k']) / 2)
    assert whole['mlm_12k'] == pytest.approx(whole['mlm_42k'] * 12 / 42)
    # CLM predicts every token, MLM only masked ones.
    assert whole['clm_42k'] > whole['mlm_42k']
    members, arm = study.members['mlm_42k'], {'mlm_42k': study.members['mlm_42k']}
    each = budgets.of_runs({member: study.configs[member] for member in members})
    steps, tokens, flops, seconds = fairness.spent(each, arm, study.logs)['mlm_42k']
    assert (steps, tokens, flops) == (42, 42 * 4 * 64, whole['mlm_42k'])
    assert seconds == pytest.approx(4.2)
    # Seeds that are matched by time differ in length.
    longer = study.configs[members[1]] | {'steps': 52}
    each |= budgets.of_runs({members[1]: longer})
    assert fairness.spent(each, arm, study.logs)['mlm_42k'][0] == 47
