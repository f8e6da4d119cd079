"""Numbers out of range are rejected before anything is built from them."""

import pytest
import tiny

from jepa_text.config import ranges
from jepa_text.optim import multipliers, optimizers, schedules
from jepa_text.parallel import exits, sharding
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes

HALF = "dtype='float16'.*Available: bfloat16, float32"
MLM = (dict(objective=dict(name='mlm')),)


@pytest.mark.parametrize(
    'changes, words',
    [
        (dict(clip_norm=-1.0), 'clip_norm=-1.0 must be a number above 0'),
        (dict(accumulate=0), 'accumulate=0 must be an integer at least 1'),
        (dict(log_every=1.5), 'log_every=1.5'),
        (dict(seed=-1), 'seed=-1'),
        (dict(stop_after_skips=0), 'stop_after_skips=0'),
        (dict(checkpoint=dict(keep=0)), 'checkpoint.keep=0 must be an integer at least'),
        (dict(checkpoint=dict(keep_every=0)), 'checkpoint.keep_every=0 must be'),
        (dict(watchdog=dict(compile=-1)), 'watchdog.compile=-1 must be a number at'),
        (
            dict(telemetry=dict(every=1, on_collapse='stopp')),
            "'stopp' is invalid; choices",
        ),
        (dict(evaluate=dict(every=1, rate=0.1, max_rows=0)), 'evaluate.max_rows=0'),
        (dict(model=dict(name='transformer', preset='tiny', depth=0)), 'model: depth=0'),
        (
            dict(model=dict(name='transformer', preset='tiny', dtype='float99')),
            "dtype='float99'.*Available: bfloat16, float32",
        ),
        *(
            (dict(model=dict(name=name, preset='tiny', dtype='float16')), HALF)
            for name in ('transformer', 'bert', 'modernbert')
        ),
        (dict(model={}), 'The config has no model'),
        (
            dict(data=dict(folder='', row_length=32, batch_size=8, threads=5000)),
            'data.threads=5000 .* at most 4096',
        ),
    ],
)
def test_numbers_out_of_range_are_named(changes, words, tmp_path):
    config = tiny.config(tmp_path, phases=MLM, **changes)
    with pytest.raises(ValueError, match=words):
        recipes.make(settings.plain(config))


def test_numbers_are_numbers():
    for value in (True, '3', None, float('nan'), [1]):
        with pytest.raises(ValueError, match='must be a number'):
            ranges.number('x', value)
    ranges.number('x', 2.0, whole=True, minimum=2, maximum=2)
    ranges.number('x', float('inf'), above=0, finite=False)
    ranges.number('x', 10**400, whole=True)
    with pytest.raises(ValueError, match='x=inf must be a finite number above 0'):
        ranges.number('x', float('inf'), above=0)


@pytest.mark.parametrize(
    'section, words',
    [
        (dict(name='wsd', peak=-1.0, warmup=1, decay=1), "'wsd': peak=-1.0"),
        (dict(name='wsd', peak='x', warmup=1, decay=1), "peak='x' must be a number"),
        (dict(name='wsd', peak=1.0, warmup=-5, decay=1), 'warmup=-5'),
        (dict(name='warmup_cosine', peak=1.0, warmup=8), r'warmup \(8\) takes all 8'),
    ],
)
def test_invalid_schedules_are_rejected(section, words):
    with pytest.raises(ValueError, match=words):
        schedules.make(section, steps=8)


@pytest.mark.parametrize(
    'section, words',
    [
        (dict(b1=2.0), 'b1=2.0'),
        (dict(momentum_dtype='int32'), 'int32'),
        (dict(momentum_dtype='float16'), HALF),
        (dict(name='muon', momentum_dtype='float16'), HALF),
        (dict(decay_paths='('), 'not a valid regular expression'),
        (dict(weight_decay=-0.1), 'weight_decay=-0.1'),
        (dict(lr_multipliers=('embedding$', 0.0)), 'pairs of a pattern and a factor'),
        (dict(lr_multipliers=(('(', 0.0),)), 'not a valid regular expression'),
        (dict(name='muon', momentum=1.0), 'momentum=1.0'),
    ],
)
def test_invalid_optimizers_are_rejected(section, words):
    with pytest.raises(ValueError, match=words):
        optimizers.make({'name': 'adamw', **section})


@pytest.mark.parametrize(
    'phase, words',
    [
        (dict(at_switch=dict(rewam=3)), "at_switch has no key 'rewam'"),
        (dict(at_switch=dict(rewarm=-3)), 'rewarm=-3'),
        (dict(at_switch=dict(reset='(')), 'not a valid regular expression'),
        (dict(steps=1.5), 'steps=1.5'),
        (dict(steps=2, share=0.5), 'give one of them'),
    ],
)
def test_invalid_phases_are_rejected(phase, words, tmp_path):
    sections = [{**MLM[0], 'steps': 2}, {**MLM[0], **phase}]
    config = tiny.config(tmp_path, phases=sections, steps=4)
    with pytest.raises(ValueError, match=words):
        recipes.outline(settings.plain(config), sharding.abstract_mesh(4))


def test_at_switch_is_only_for_later_phases():
    with pytest.raises(ValueError, match='phases.0: at_switch is only for later phases'):
        recipes._at_switch(dict(at_switch=dict(rewarm=1)), 0, 2)
    assert recipes._at_switch(dict(at_switch=dict(rewarm=0.5)), 1, 8) == (None, 4)


def test_a_diverged_run_is_not_restarted():
    assert exits.code_of(exits.Diverged('nan')) == exits.USAGE
    assert exits.code_of(FloatingPointError('nan')) == exits.FAILED


def test_rates_may_match_parameters_of_later_phases():
    section = {'lr_multipliers': (('predictor/', 0.5),)}
    multipliers.check(section, [{'encoder': 1.0}, {'predictor': {'up': 1.0}}])
    with pytest.raises(ValueError, match="'predictor/' matches no parameter"):
        multipliers.check(section, [{'encoder': 1.0}, {'lm_head': 1.0}])
