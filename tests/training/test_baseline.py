"""Matched baselines: MLM with the same FLOPs as a run with latent terms."""

import pytest
import tiny

from jepa_text.parallel import sharding
from jepa_text.settings import config_file
from jepa_text.training import completion
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes

PRESETS = config_file.shared('toy').PRESETS
LATENT = [
    name
    for name, phases in PRESETS.items()
    if phases[-1]['objective']['name'] in ('hybrid', 'ijepa')
]


def config(folder, **changes):
    return settings.plain(tiny.config(folder, **changes))


def total_flops(config):
    """Returns the FLOPs of all steps, and of the most expensive step."""
    made = recipes.outline(config, sharding.abstract_mesh(4))
    costs = [made.cost(phase).model for phase in made.phases]
    steps = [phase.stop - phase.start for phase in made.phases]
    return sum(cost * count for cost, count in zip(costs, steps)), max(costs)


@pytest.mark.slow
@pytest.mark.parametrize('name', LATENT)
def test_flops_are_equal_within_a_step(name, folder):
    model = dict(name='transformer', preset='tiny', depth=3)
    given = config(folder, phases=PRESETS[name], steps=1000, model=model)
    matched = completion.with_baseline(given | {'baseline': 'flops'})
    mine, _ = total_flops(given)
    its, step = total_flops(matched)
    assert abs(mine - its) <= step
    names = [phase['objective']['name'] for phase in matched['phases']]
    assert names[-1] == 'mlm' and matched['steps'] > 1000
    # The first phase, CLM, is unchanged.
    assert names[:-1] == ['clm'] * (len(names) - 1)
    assert [p['steps'] for p in matched['phases']][:-1] == [250] * (len(names) - 1)


def test_no_baseline_and_a_matched_config_are_unchanged(folder):
    given = config(folder)
    assert given['baseline'] == 'none' and completion.with_baseline(given) is given
    matched = completion.with_baseline(given | {'baseline': 'flops'})
    assert completion.with_baseline(matched) is matched
    assert matched['baseline']['by'] == 'flops'
    assert matched['baseline']['ratios'][0] == 1.0
    # Without ratios, nothing would be matched.
    with pytest.raises(ValueError, match="baseline={'by': 'flops'}.*Available: flops"):
        completion.with_baseline(given | {'baseline': {'by': 'flops'}})


@pytest.mark.slow
def test_the_schedule_stretches(folder):
    by_steps = dict(name='wsd', peak=1e-3, warmup_steps=4, decay_fraction=0.5)
    given = config(folder, schedule=by_steps, baseline='flops')
    matched = completion.with_baseline(given)
    factor = matched['steps'] / 24
    assert factor > 1.05
    assert matched['schedule'] == by_steps | {'warmup_steps': int(4 * factor)}
    constant = completion.with_baseline(given | {'schedule': 1e-3})
    assert constant['schedule'] == 1e-3


def test_the_masking_rate_of_a_phase_stretches_with_it(folder):
    rate = dict(name='linear', start=0.5, end=0.1, steps=8)
    given = config(folder, steps=24)
    given['phases'][1]['objective']['mlm'] = dict(rate=rate)
    matched = completion.with_baseline(given | {'baseline': 'flops'})
    second = matched['phases'][1]
    ratio = matched['baseline']['ratios'][1]
    assert ratio > 1.05
    assert second['objective']['rate'] == rate | {'steps': int(8 * ratio)}
    assert second['steps'] == round(12 * ratio)


def test_a_budget_of_tokens_becomes_steps(folder):
    given = config(folder, steps=0, tokens=24 * 8 * tiny.LENGTH, baseline='flops')
    by_steps = completion.with_baseline(config(folder, baseline='flops'))
    matched = completion.with_baseline(given)
    assert matched['steps'] == by_steps['steps'] and matched['tokens'] == 0


def test_impossible_baselines_are_rejected(folder):
    with pytest.raises(ValueError, match="baseline='flop'. Did you mean 'flops'"):
        completion.with_baseline(config(folder, baseline='flop'))
    alone = config(folder, phases=[dict(objective=dict(name='clm'))], baseline='flops')
    with pytest.raises(ValueError, match='no phase has a latent term: clm'):
        completion.with_baseline(alone)


def test_a_baseline_may_lack_parameters_that_have_an_lr_multiplier(folder):
    optimizer = dict(name='adamw', lr_multipliers=[['predictor', 0.5]])
    given = config(folder, optimizer=optimizer, baseline='flops')
    matched = completion.with_baseline(given)
    assert recipes.make(matched).steps == matched['steps']
    optimizer['lr_multipliers'] = [['predictr', 0.5]]
    with pytest.raises(ValueError, match="'predictr' matches no parameter"):
        completion.with_baseline(given | {'optimizer': optimizer})
