"""Whole runs: phases, guards, and invalid configs."""

import json
import shutil

import jax
import numpy as np
import pytest
import tiny
from numpy.testing import assert_array_equal

from jepa_text.data import stream
from jepa_text.pretrained import load
from jepa_text.running import metrics
from jepa_text.training import config as settings
from jepa_text.training import descriptions
from jepa_text.training import recipe as recipes

STEPS = 24


@pytest.fixture(scope='module')
def trained(folder):
    """(config, workdir) of four MLM steps on devices with a known peak."""
    config = tiny.config(folder, steps=4, phases=tiny.phases('mlm'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('jepa_text.parallel.hardware.peak', lambda kind: 1e12)
        tiny.train(config, folder / 'run')
    return config, folder / 'run'


@pytest.mark.slow
def test_phases_learn_and_are_recorded(folder, tmp_path, monkeypatch):
    config, read, asked = tiny.config(folder, steps=STEPS), stream.batches, []
    config['telemetry'] = dict(every_steps=4)

    def counted(*args, **own):
        return (asked.append(x) or x for x in read(*args, **own))

    monkeypatch.setattr(stream, 'batches', counted)
    state = tiny.train(config, tmp_path / 'run')
    assert len(asked) == STEPS  # no batch is read ahead past the end of a phase
    log = metrics.read(tmp_path / 'run')
    losses = dict(zip(*metrics.series(log, 'heldout/mlm_loss')))
    assert set(losses) == {0, 8, 12, 16, 24}
    assert losses[24] < losses[0] - 1
    assert state.target is not None and set(state.params) >= {'predictor', 'balance'}
    names = {key for line in log for key in line}
    assert {
        'train/loss', 'train/clm_loss', 'train/mlm_loss', 'train/mlm_accuracy',
        'train/grad_norm', 'train/learning_rate', 'jepa/loss', 'jepa/lambda',
        'train/tokens', 'train/masked_tokens', 'train/perplexity', 'jepa/grad_ratio',
        'jepa/effective_rank',
        'jepa/cosine', 'jepa/target_std', 'jepa/prediction_std', 'jepa/momentum',
        'heldout/mlm_loss', 'heldout/clm_loss', 'heldout/bits_per_byte',
        'throughput/tokens_per_second', 'throughput/step_time',
    } <= names  # fmt: skip
    model = load.load(tmp_path / 'run')
    vectors = model.encode(['The whale saw the captain.', 'A letter'])
    assert vectors.shape == (2, 64) and np.isfinite(vectors).all()
    answers = model.fill('The <mask> of union saw <mask>.', top=4)
    assert [len(found) for found in answers] == [4, 4]
    for name in ('encoder', 'lm_head'):
        jax.tree.map(assert_array_equal, model.params[name], state.params[name])
    begun = load.untrained(tmp_path / 'run').encode(['The whale saw the captain.'])
    assert np.abs(begun - vectors[:1]).max() > 1e-2


@pytest.mark.slow
def test_a_run_with_a_kernel_that_is_missing_here_is_loaded(trained, tmp_path):
    """As if trained on a GPU."""
    workdir = shutil.copytree(trained[1], tmp_path / 'run')
    texts = ['The whale.', 'The captain of the union saw a letter.', 'Garden']
    together = load.load(workdir).encode(texts)
    saved = json.loads((workdir / 'config.json').read_text())
    saved['model']['attention'] = 'cudnn'
    (workdir / 'config.json').write_text(json.dumps(saved))
    elsewhere = load.load(workdir).encode(texts)
    assert_array_equal(elsewhere, together)


@pytest.mark.slow
def test_settings_of_the_loop_change_no_bit(folder, tmp_path, capsys):
    """A profile, and a budget in tokens."""
    config = tiny.config(
        folder, steps=4, phases=tiny.phases('mlm'), mesh=dict(data=2, fsdp=2, tensor=1)
    )
    plain = tiny.train(config, tmp_path / 'plain')
    budgeted = {**config, 'steps': 0, 'tokens': 4 * 8 * tiny.LENGTH - 5}
    state = tiny.train(budgeted | dict(profile_steps=(2, 3)), tmp_path / 'other')
    assert tiny.fingerprint(state) == tiny.fingerprint(plain)
    assert ' without the embedding, on 4 x cpu' in capsys.readouterr().err
    (trace,) = (tmp_path / 'other' / 'profile').rglob('*.xplane.pb')
    stages = trace.read_bytes()
    assert all(s in stages for s in (b'encoder', b'lm_head', b'optimizer', b'loss'))
    # The same run with other settings.
    again = tiny.train(budgeted, tmp_path / 'other')
    assert tiny.fingerprint(again) == tiny.fingerprint(plain)
    last = metrics.read(tmp_path / 'other')[-2]  # followed by the evaluation
    assert last['train/total_positions'] == 4 * 8 * tiny.LENGTH
    assert last['memory/host_gib'] > 0
    assert 'throughput/mfu' not in last  # the peak of a CPU is unknown


def test_parameters_and_flops_of_all_modules_are_said(folder, caplog):
    """Also those of a predictor that only a later phase has."""
    names = ('clm', 'hybrid')
    phases = tuple(dict(objective=dict(name=x), fraction=0.5) for x in names)
    config = tiny.config(folder, steps=4, phases=phases, profile_steps=(4, 12))
    made = recipes.make(settings.plain(config))
    params = made.shapes(made.phases[-1]).params
    predictor = sum(leaf.size for leaf in jax.tree.leaves(params['predictor']))
    assert 'predictor' not in made.shapes(made.phases[0]).params
    total = sum(leaf.size for leaf in jax.tree.leaves(params))
    rest = total - params['encoder']['embedding'].size
    network, budget, unreached = descriptions.introduction(made)
    assert unreached == 'profile_steps: 12 lies beyond step 4.'
    assert network.startswith(
        f'network  {total:,} parameters, {rest:,} without the embedding, on '
    )
    assert budget.startswith('budget   ')
    compiling = 'compiling the training step'
    assert descriptions.program(made, made.phases[0]) == [compiling]
    with caplog.at_level('INFO', 'jepa_text'):
        said = '\n'.join(descriptions.introduction(made))
        assert 'ffn/up/kernel' in said and f'predictor {predictor:,}' in said
        for phase in made.phases:
            flops = made.cost(phase)
            line, attention, last = descriptions.program(made, phase)
            assert line.startswith(f'FLOPs    {flops.model:.3g} per step: ')
            assert ('predictor' in line) == (phase.index == 1) and 'lm_head' in line
            assert attention.startswith('attention') and last == compiling


@pytest.mark.slow
def test_mfu_only_counts_real_tokens(trained):
    config, workdir = trained
    made = recipes.make(settings.plain(config))
    per_token = made.cost(made.phases[0]).model / (8 * tiny.LENGTH)
    for line in metrics.read(workdir)[2:4]:
        speed = line['throughput/tokens_per_second']
        seconds = line['throughput/step_time']
        assert np.isclose(speed * seconds, line['train/tokens'])
        assert np.isclose(line['throughput/mfu'], speed / 4 * per_token / 1e12)


@pytest.mark.slow
def test_nan_stops_the_run_with_the_state_saved(folder, tmp_path):
    config = tiny.config(
        folder,
        phases=tiny.phases('mlm'),
        schedule=dict(name='constant', value=1e30),
        checkpoint=dict(every_steps=100, keep=2),
        evaluate=dict(every_steps=0, rate=0.15, max_rows=1),
    )
    with pytest.raises(FloatingPointError, match='3 times in a row'):
        tiny.train(config, tmp_path / 'run')
    model = load.load(tmp_path / 'run')
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(model.params))


@pytest.mark.slow
def test_a_collapsed_run_says_so_once(folder, tmp_path, monkeypatch, capsys):
    """And a healthy one nothing."""
    # The allocator of a calling notebook must not be changed.
    monkeypatch.delattr('jepa_text.running.xla_flags.keep_freed_memory')
    objective = dict(name='hybrid', predictor_width=16, balance=0.5)
    config = tiny.config(folder, steps=3, phases=(dict(objective=objective),))
    config['evaluate']['every_steps'] = 0
    config['telemetry']['every_steps'] = 1
    limit = 'jepa_text.objectives.latent.diagnostics.MIN_RANK'
    for rank, times in ((None, 0), (1.1, 1)):
        if rank:
            monkeypatch.setattr(limit, rank)
        assert int(tiny.train(config, tmp_path / f'{rank}').step) == 3
        said = ''.join(capsys.readouterr())
        assert said.count('the targets span') == said.count('collapse') == times


@pytest.mark.parametrize('index', [0, 1])
@pytest.mark.parametrize('size', [{}, dict(steps=0, tokens=160 * 8 * tiny.LENGTH)])
def test_the_objective_of_a_loaded_run_has_the_steps_of_its_phase(
    folder, tmp_path, monkeypatch, size, index
):
    """Shares of a schedule are of these steps, in which a warm-up has to fit."""
    rate = dict(name='warmup_cosine', peak=0.5, warmup_steps=30, end=0.1)
    share = dict(name='wsd', peak=0.3, warmup_fraction=0.1, decay_fraction=0.2)
    hybrid = dict(
        name='hybrid',
        mlm=dict(rate=rate),
        latent=dict(momentum=dict(name='linear', start=0.5, end=0.9)),
        balance=dict(name='schedule', of=share),
    )
    first = dict(objective=dict(name='mlm', rate=rate), fraction=0.25)
    phases = (first, dict(objective=hybrid))
    config = tiny.config(folder, **dict(steps=160, phases=phases) | size)
    config = settings.plain(config)
    recipe = recipes.outline(config)
    phase = recipe.phases[index]
    meta = {'phase': index, 'steps': recipe.steps, 'history': [], **recipe.identity}
    (tmp_path / 'config.json').write_text(json.dumps(config))
    recipe.tokenizer.save(tmp_path / 'tokenizer.json')
    monkeypatch.setattr(load.restore, 'newest_good', lambda _: (160, meta))
    found = load.abstract(tmp_path)[1].network.objective
    for step in (0, phase.steps // 2, phase.steps - 2):
        given, wanted = (numbers_at(x, step) for x in (found, phase.objective))
        assert_array_equal(given, wanted)


def numbers_at(objective, step):
    """The scheduled numbers of an objective at a step of its phase."""
    if not hasattr(objective, 'latent'):
        return objective.rate
    weights = objective.balance.weights({}, {}, step)
    return [*weights, objective.latent.momentum(step), *objective.mlm.rate[:1]]
