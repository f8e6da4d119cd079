"""Plans: known parameter counts and hours, and memory as in the compiled program."""

import dataclasses
import time

import draws
import jax
import pytest
import tiny

from jepa_text import main
from jepa_text.parallel import hardware, sharding
from jepa_text.planning import aot, hlo, memory, plan, tables
from jepa_text.settings import config_file
from jepa_text.study import forecast
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes
from jepa_text.training import step as steps

PRETRAIN = str(config_file.folder() / 'pretrain.py')


def config_of(argument, on=None, **changes):
    """A preset of configs/pretrain.py, on its own hardware or another."""
    config = settings.plain(config_file.read(f'pretrain:{argument}')) | changes
    return config | {'plan': config['plan'] | ({'hardware': on} if on else {})}


def pretrain(argument, on):
    """The plan of a preset."""
    return plan.make(config_of(argument, on, mesh=dict(data=-1, fsdp=1, tensor=1)))


def flops_of(argument):
    """{part: FLOPs per step}, without a plan."""
    config = config_of(argument)
    vocab_size = plan.options_of(config).vocab_size
    made = recipes.outline(config, sharding.abstract_mesh(8), vocab_size)
    return made.cost(made.phases[0]).parts


@pytest.fixture(scope='module')
def study():
    """The plan of the paper's MLM on its machine."""
    return pretrain('mlm,size=610m', 'mi250x:192')


def flops_of_2507_00994(objective, size):
    """FLOPs per step in the paper, whose MLM head also scores all positions."""
    encoder = flops_of(f'{objective},size={size}')['encoder']
    return encoder + flops_of(f'clm,size={size}')['lm_head']


@pytest.mark.slow
def test_the_small_encoder_takes_at_most_two_hours_on_two_cores():
    config = settings.plain(config_file.shared('small').get_config())
    made = plan.make(config)
    assert made.devices == 2 and 0.5 < made.seconds(made.chip, made.mfu) / 3600 < 2
    # 16 MB in float16, as it is shipped.
    assert 4e6 < sum(made.phases[-1].parameters.values()) < 8e6
    assert not any('set model.dtype' in line for line in tables.notes(made))


@pytest.mark.slow
def test_hours_of_one_row_of_the_paper_predict_another(study):
    """The MFU of the table is fitted to the 16,000 hours for 120,000 steps at 610M in
    arXiv 2507.00994. It predicts the 81,000 hours of its 15 base models of three sizes,
    which were not used for fitting."""
    chip = study.chip
    assert study.tokens == 42_000 * 1152 * 2048
    fitted = 120_000 * flops_of_2507_00994('mlm', '610m') / (16_000 * 3600 * chip.peak)
    assert chip.mfu == pytest.approx(fitted, rel=0.1)
    total = sum(
        42_000 * models * flops_of_2507_00994(objective, size)
        for size in ('210m', '610m', '1b')
        for objective, models in (('mlm', 4), ('clm', 1))
    )
    hours = total / (chip.peak * fitted) / 3600
    assert hours == pytest.approx(81_000, rel=0.15)


@pytest.mark.slow
def test_step_time_is_bounded_by_the_state(study):
    (phase,) = study.phases
    chip = study.chip
    seconds = phase.count.model / (192 * chip.peak * 0.5)
    assert study.step_seconds(phase, chip, 0.5) == seconds
    slow = chip._replace(bandwidth=1e6)
    # Weights and two moments of 4 bytes each, read and written.
    bytes_moved = 2 * 3 * 4 * sum(phase.parameters.values())
    assert study.step_seconds(phase, slow, 0.5) == pytest.approx(bytes_moved / 1e6)


@pytest.mark.slow
def test_planning_a_billion_parameters_takes_seconds():
    start = time.process_time()
    made = pretrain('clm_jepa_mlm,size=1b', 'v5p:64')
    assert time.process_time() - start < 30
    assert [phase.name for phase in made.phases] == ['clm', 'hybrid']
    assert sum(made.phases[0].parameters.values()) == 1_409_482_944
    assert made.phases[0].memory.state['target'] == 0
    assert made.phases[1].memory.state['target'] == 4 * 1_187_856_576
    clm, hybrid = (phase.count for phase in made.phases)
    assert 1.1 < hybrid.model / sum(flops_of('mlm,size=1b').values()) < 1.35
    # Layers are partly recomputed; full recomputation would be a third more.
    assert 1.0 < clm.program / clm.model < 1.34


def shapes(folder, mesh, **changes):
    config = settings.plain(tiny.config(folder, **changes))
    return recipes.outline(config, mesh)


@pytest.mark.slow
def test_state_is_as_large_as_the_inputs_of_the_compiled_step(tmp_path):
    """Exactly, with two mesh axes."""
    model = dict(name='transformer', preset='tiny', depth=3, remat='full')
    mesh = dict(data=1, fsdp=2, tensor=2)
    real = shapes(tmp_path, sharding.make_mesh(**mesh), model=model)
    made = shapes(tmp_path, sharding.abstract_mesh(4, **mesh), model=model)
    for phase, its in zip(made.phases[1:], real.phases[1:]):
        state = real.abstract_state(its)
        batch = real.abstract_batch(its, its.batch_size)
        with jax.set_mesh(real.mesh):
            step = steps.jitted(real, its).lower(state, batch).compile()
        taken = step.memory_analysis().argument_size_in_bytes
        held = memory.estimate(made, phase, microbatches=1, fused=False)
        rows = sum(v.size * v.dtype.itemsize for v in batch.values()) // 2
        # The estimate omits counters; the program omits unused inputs.
        assert abs(taken - sum(held.state.values())) < rows + 512


@pytest.mark.slow
def test_tensor_axis_splits_heads_and_ffn():
    """Their activations are halved; layer inputs and other activations are not."""
    config = config_of('mlm,size=210m')
    config['model'] |= dict(depth=3)
    config['data'] |= dict(batch_size=8)

    def kept(tensor):
        mesh = sharding.abstract_mesh(8, data=1, fsdp=8 // tensor, tensor=tensor)
        made = recipes.outline(config, mesh, 1024)
        return memory.estimate(
            made, made.phases[0], microbatches=1, fused=True
        ).activations

    length, width, ffn, heads, depth = 2048, 768, 3072, 12, 3
    layer = length * ((width + 2 * ffn) * 2 + heads * 4)
    assert kept(1) - kept(2) == depth * layer / 2


@pytest.mark.slow
def test_activations_follow_from_shape_and_policy(tmp_path):
    def kept(fused=True, **model):
        model = dict(name='transformer', preset='toy', dtype='bfloat16', **model)
        data = dict(folder=tiny.rows(tmp_path), row_length=256, batch_size=8)
        phases = [dict(objective=dict(name='mlm'))]
        made = shapes(
            tmp_path, sharding.abstract_mesh(1), model=model, phases=phases, data=data
        )
        return memory.estimate(made, made.phases[0], microbatches=1, fused=fused)

    full, names, none = (
        kept(remat=policy).activations for policy in ('full', 'names', 'none')
    )
    length, width, ffn, depth = 256, 128, 384, 4
    # Besides layer inputs: the result of attention, both sides of the gate, and the
    # log-sum-exp of every head.
    heads = 4
    assert names - full == depth * length * ((width + 2 * ffn) * 2 + heads * 4)
    assert full < names < none
    # Twice as many layers store twice as much, except what is outside of layers.
    deeper = kept(remat='none', depth=8).activations
    assert 1.8 * none < deeper < 2 * none
    # Scores of a head, and their softmax, are [L, L].
    unfused = kept(fused=False, remat='none').activations
    assert unfused - none > depth * 4 * length**2 * 4


@pytest.mark.parametrize(
    'argument, dtype, chips, fused',
    draws.in_stages(
        ('mlm', 'bfloat16', ('h100', 'v5e'), True),
        ('mlm', 'bfloat16', ('t4', 'mi250x', 'core'), False),
        ('mlm', 'float32', ('h100',), False),
        ('mixture', 'bfloat16', ('h100', 'v5e'), False),
        fast=2,
        slow=2,
    ),
)
def test_attention_is_planned_with_the_backend_of_the_chip(argument, dtype, chips, fused):
    model = dict(name='transformer', preset='tiny', depth=1, dtype=dtype)
    for chip in chips:
        config = config_of(f'{argument},size=210m', f'{chip}:64', model=model)
        (phase,) = plan.make(config).phases
        assert phase.fused == fused


def test_a_chip_is_judged_alike_beside_others_and_by_itself():
    """Also one whose attention stores the scores, which those of others do not."""
    model = dict(name='transformer', preset='tiny', depth=1, dtype='bfloat16')
    speeds = []
    for chip in ('h100', 't4'):
        config = config_of('mlm,size=210m', f'{chip}:64', model=model)
        config['data'] |= dict(batch_size=4096)
        _, rows = tables.cost(plan.make(config))
        speeds.append({label: speed for label, _, speed, *_ in rows})
    assert speeds[0] == speeds[1] and speeds[0]['t4:64'] == 'does not fit'
    assert speeds[0]['h100:64'] != 'does not fit'


def test_max_rows_fit_and_one_more_does_not(study):
    held, room = study.phases[0].memory, study.chip.memory
    maximum = held.max_rows(room)
    assert held.total(maximum) <= memory.USABLE * room < held.total(maximum + 1)
    assert held.max_rows(1e6) == 0


@pytest.mark.slow
def test_phases_with_different_row_lengths():
    """The same number of tokens in longer rows."""
    tiny_one = dict(name='transformer', preset='tiny', depth=1)
    config = config_of('mlm,size=210m', 'h100:8', model=tiny_one)
    mlm = config['phases'][0]
    short = dict(mlm, steps=40_000, data=dict(row_length=1024, batch_size=2304))
    long = dict(mlm, data=dict(row_length=8192, batch_size=288), rope_theta=160_000.0)
    alone = plan.make(config)
    made = plan.make(config | {'phases': [short, long]})
    first, second = made.phases
    assert (first.rows, second.rows) == (2304, 288)
    assert (first.rows_at_once, second.rows_at_once) == (288, 36)
    assert first.tokens == second.tokens == alone.phases[0].tokens
    assert made.tokens == alone.tokens
    # Attention reads more tokens; other FLOPs per token are the same.
    lengths = [phase.count.parts['encoder'] for phase in (first, *alone.phases, second)]
    assert lengths == sorted(set(lengths))
    assert made.peak_memory == max(p.memory.total(p.rows_at_once) for p in made.phases)
    uneven = dict(long, data=dict(row_length=8192, batch_size=12))
    uneven = config | {'phases': [short, uneven]}
    # Devices of a study's tasks need not be those of the plan: only `plan` refuses.
    assert plan.make(uneven).phases[1].rows_at_once == 1
    with pytest.raises(ValueError, match='batch_size=12 is not a multiple of 8'):
        plan.plan(uneven)


def test_tables_are_complete(study, capsys):
    tables.show('mlm', study)
    text = capsys.readouterr().out
    for words in ('607,874', '147,750,912', '191.5 TFLOP', 'most rows', 'h100:192'):
        assert words in text
    _, rows = tables.cost(study)
    assert rows[0][0] == 'mi250x:192' and rows[0][-1] is None
    assert len(rows) == len(hardware.CHIPS)
    dear = dataclasses.replace(
        study, options=hardware.Options('mi250x:192', dollars_per_chip_hour=2.0)
    )
    hours = study.seconds(study.chip, study.mfu) / 3600 * 192
    assert tables.cost(dear)[1][0][-1] == f'{2 * hours:,.2f}'


def test_steps_that_are_too_short_to_plan_have_no_hours(study, monkeypatch):
    named = dict(name='mlm', start=0, trunk='', begun=0, is_done=False)
    member = forecast.Member(plan=study, **named)
    assert member.seconds(0) == study.seconds(study.chip, study.mfu)
    assert tables.cost(study)[1][0][2] != 'step below 1 ms'
    monkeypatch.setattr(plan, 'SHORTEST', 1e3)
    assert {(row[2], *row[3:]) for row in tables.cost(study)[1]} == {
        ('step below 1 ms', None, None, None, None),
        ('does not fit', None, None, None, None),
    }
    assert member.seconds(0) is None
    assert 'no hours, as a run' in [*forecast.totals([member])][-1]


@pytest.mark.slow
def test_a_run_that_does_not_fit_has_no_price(study, capsys):
    config = config_of('mlm,size=210m', 'v5e')
    config['data'] |= dict(batch_size=64)
    made = plan.make(config)
    tables.show('mlm', made)
    text = capsys.readouterr().out
    assert 'Does not fit' in text and 'accumulate=2' in text
    label, _, speed, *rest = tables.cost(made)[1][0]
    assert (label, speed) == ('v5e', 'does not fit') and set(rest) == {None}
    # What it names needs less.
    config |= dict(accumulate=8)
    config['model'] |= dict(remat='full')
    assert plan.make(config).peak_memory < made.peak_memory / 2
    assert study.fits(study.chip) and not list(tables.verdict(study))
    # The compiler's figure takes precedence over the estimate.
    (phase,) = study.phases
    compiled = aot.Compiled(peak=10**12, traffic=None, notes=())
    large = dataclasses.replace(phase, compiled=compiled)
    assert not dataclasses.replace(study, phases=(large,)).fits(study.chip)


def test_compiled_kernels_bound_the_speed(study, capsys):
    """With kernels that take nine times as long as all arithmetic at the peak, the MFU is
    below a ninth, and the plan uses less."""
    (phase,) = study.phases
    seconds = phase.count.model / study.devices / study.chip.peak
    slow = hlo.Traffic(9 * seconds * study.chip.bandwidth, ())
    made = aot.Compiled(peak=1, traffic=slow, notes=('one note',))
    phases = (dataclasses.replace(phase, compiled=made),)
    plan_ = dataclasses.replace(study, phases=phases)
    assert 0.05 < plan_.bound < 1 / 9
    assert plan_.mfu == pytest.approx(plan_.bound * hardware.REACHED)
    tables.show('mlm', plan_)
    text = capsys.readouterr().out
    for words in ('one note', 'other kernels', 'of the compiled program'):
        assert words in text
    given = dataclasses.replace(plan_, options=hardware.Options('mi250x:192', mfu=0.2))
    assert given.mfu == 0.2 and study.mfu == study.chip.mfu


def test_float32_is_planned_at_its_own_speed(study):
    wide = dataclasses.replace(study, dtype='float32')
    assert wide.mfu == 0.25 * study.mfu
    shares = {
        name: chip.share('float32') / chip.mfu for name, chip in hardware.CHIPS.items()
    }
    assert shares['h100'] == 0.5 and shares['t4'] == shares['v5e'] == 1
    speeds = [tables.cost(made)[1] for made in (study, wide)]
    (before, after) = ({row[0]: row[2] for row in rows} for rows in speeds)
    first, second = (float(x['h100:192'].replace(',', '')) for x in (before, after))
    assert second == pytest.approx(first / 2, rel=1e-3)
    assert any('times 0.25, the relative speed' in line for line in tables.notes(wide))
    assert not any('times' in line for line in tables.notes(study))


def test_command_needs_no_workdir_and_has_flags(capsys):
    command = ['jepa-text', 'plan', f'--config={PRETRAIN}:mlm,size=35m']
    flags = ['--hardware=v5e:4', '--mfu=0.3', '--price=1.5']
    assert main.main([*command, *flags]) == 0
    out = capsys.readouterr().out
    assert 'v5e:4' in out and 'MFU: given' in out and 'Prices' not in out


@pytest.mark.parametrize(
    'flag, words',
    [
        ('--hardware=v9', "hardware='v9'"),
        ('--hardware=h100:7', 'batch_size=1152 is not a multiple of 7'),
        ('--mfu=40', 'plan.mfu=40 must be a number above 0 and at most 1'),
        ('--price=-1', 'dollars_per_chip_hour=-1'),
        ('--config.plan.vocab_size=None', 'The size of the vocabulary is unknown'),
        ('--config.plan.vocab_size=2', 'vocab_size=2 must be an integer at least 16'),
        ('--config.prepare.tokenizer=bpe:5', 'tokenizer.vocab_size=5 must be an integer'),
        ('--config.plan.hardwear=h100', 'hardwear'),
        ('--compile=mi250x', 'absent devices does not support mi250x'),
    ],
)
def test_invalid_options_are_rejected(flag, words, capsys):
    command = ['jepa-text', 'plan', f'--config={PRETRAIN}:mlm,size=210m', *flag.split()]
    assert main.main(command) == 2
    assert words in capsys.readouterr().err


@pytest.mark.slow
def test_a_baseline_is_planned_as_it_is_trained():
    """On the devices of the plan, of which this machine has fewer."""
    config = config_file.shared('toy').get_config('clm_jepa_mlm')
    config.model = dict(name='transformer', preset='tiny')
    config.mesh = dict(data=1, fsdp=16)
    config.plan = dict(hardware='h100:16')
    latent = plan.plan(config)['clm_jepa_mlm']
    config.baseline = 'flops'
    made = plan.plan(config)['clm_jepa_mlm']
    assert [phase.name for phase in made.phases] == ['clm', 'mlm']
    assert made.phases[1].steps > latent.phases[1].steps
    cost = [
        sum(phase.steps * phase.count.model for phase in each.phases)
        for each in (made, latent)
    ]
    assert cost[0] == pytest.approx(cost[1], rel=1e-3)


@pytest.mark.slow
def test_a_study_is_planned_run_by_run(capsys):
    config = config_file.shared('quickstart').get_config()
    config.model = dict(name='transformer', preset='tiny')
    plans = plan.plan(config)
    assert list(plans) == ['mlm', 'clm_mlm', 'clm_jepa_mlm']
    assert 'clm_jepa_mlm: memory' in capsys.readouterr().out
