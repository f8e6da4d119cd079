"""Runs of a process share the programs of equal steps, and no others."""

import pytest
import tiny

from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes
from jepa_text.training import step as steps


def phases(fraction=0.5, **changes):
    """Returns a change of both phases, or of the objective of the second one."""
    objective = dict(name='hybrid', predictor_width=16, balance=0.5) | changes
    first = dict(fraction=fraction, objective=dict(name='clm'))
    return dict(phases=(first, dict(objective=objective)))


SCHEDULE = dict(name='wsd', peak=3e-3, warmup_fraction=0.1, decay_fraction=0.2)


@pytest.fixture(scope='module')
def step(tmp_path_factory):
    """Returns the program of the last phase of a config with some changes."""
    folder = tmp_path_factory.mktemp('programs')

    def of(**changes):
        config = tiny.config(folder, **phases() | changes)
        recipe = recipes.make(settings.plain(config))
        return steps.jitted(recipe, recipe.phases[-1])

    return of


@pytest.fixture(scope='module')
def base(step):
    return step()


@pytest.mark.parametrize(
    'change',
    [
        dict(seed=1),
        dict(name='other'),
        dict(log_every_steps=2),
        dict(evaluate=dict(every_steps=0)),
        dict(checkpoint=dict(every_steps=1, keep=1)),
        dict(stop_after_skips=9),
    ],
)
def test_what_is_outside_of_a_step_changes_no_program(step, base, change):
    assert step(**change) is base


@pytest.mark.parametrize(
    'change',
    [
        phases(balance=0.4),
        phases(balance=dict(name='sigmoid')),
        phases(latent=dict(momentum=0.9)),
        phases(latent=dict(distance='mse')),
        phases(mlm=dict(rate=0.2)),
        phases(mlm=dict(tied=True)),
        phases(predictor_width=32),
        phases(fraction=0.25),
        dict(optimizer=dict(name='adamw', b2=0.9)),
        dict(optimizer=dict(name='adamw', weight_decay=0.0)),
        dict(optimizer=dict(name='muon')),
        dict(schedule=SCHEDULE | dict(peak=2e-3)),
        dict(schedule=SCHEDULE | dict(decay_fraction=0.3)),
        dict(clip_norm=0.5),
        dict(accumulate=2),
        dict(telemetry=dict(every_steps=3)),
        dict(mesh=dict(data=2, fsdp=1, tensor=2)),
        dict(model=dict(name='transformer', preset='tiny', depth=2, scan=False)),
        dict(model=dict(name='transformer', preset='tiny', depth=1, dtype='bfloat16')),
    ],
)
def test_what_is_in_a_step_changes_the_program(step, base, change):
    other = step(**change)
    assert other is not base and other is step(**change)


def test_options_of_muon_change_the_program(step):
    options = {}, dict(ns_steps=3), dict(ns_lower=0.01), dict(ns_lower=0.02)
    made = [step(optimizer=dict(name='muon', **one)) for one in options]
    assert len({id(program) for program in made}) == len(options)
