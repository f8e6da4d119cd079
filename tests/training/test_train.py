"""Whole runs: phases, guards, and invalid configs."""

import inspect
import json
import shutil
from pathlib import Path

import draws
import jax
import numpy as np
import pytest
import tiny
from numpy.testing import assert_array_equal

from jepa_text.data import stream
from jepa_text.optim import schedules
from jepa_text.pretrained import load
from jepa_text.running import budget, metrics
from jepa_text.training import config as settings
from jepa_text.training import descriptions
from jepa_text.training import recipe as recipes

STEPS = 24


@pytest.fixture(scope='module')
def trained(folder):
    """(config, workdir, final state) of four MLM steps on devices with a known peak."""
    config = tiny.config(folder, steps=4, phases=(dict(objective=dict(name='mlm')),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('jepa_text.parallel.hardware.peak', lambda kind: 1e12)
        state = tiny.train(config, folder / 'run')
    return config, folder / 'run', state


@pytest.fixture
def run(trained, tmp_path):
    """(config, a copy of its workdir that tests may change)."""
    config, workdir, _ = trained
    return config, Path(shutil.copytree(workdir, tmp_path / 'run'))


@pytest.mark.slow
def test_a_finished_run_reports_it_and_does_nothing(trained):
    config, workdir, first = trained
    written = (workdir / 'metrics.jsonl').read_bytes()
    assert tiny.fingerprint(tiny.train(config, workdir)) == tiny.fingerprint(first)
    assert (workdir / 'metrics.jsonl').read_bytes() == written


@pytest.mark.slow
def test_phases_learn_and_are_recorded(folder, tmp_path, monkeypatch):
    config, read, asked = tiny.config(folder, steps=STEPS), stream.batches, []

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
        jax.tree.map(
            np.testing.assert_array_equal, model.params[name], state.params[name]
        )
    begun = load.untrained(tmp_path / 'run').encode(['The whale saw the captain.'])
    assert np.abs(begun - vectors[:1]).max() > 1e-2


@pytest.mark.slow
def test_a_run_with_a_kernel_that_is_missing_here_is_loaded(run):
    """As if trained on a GPU."""
    _, workdir = run
    texts = ['The whale.', 'The captain of the union saw a letter.', 'Garden']
    together = load.load(workdir).encode(texts)
    saved = json.loads((workdir / 'config.json').read_text())
    saved['model']['attention'] = 'cudnn'
    (workdir / 'config.json').write_text(json.dumps(saved))
    elsewhere = load.load(workdir).encode(texts)
    np.testing.assert_array_equal(elsewhere, together)


@pytest.mark.slow
def test_settings_of_the_loop_change_no_bit(folder, tmp_path, capsys):
    """A profile, and a budget in tokens."""
    config = tiny.config(
        folder,
        steps=4,
        phases=(dict(objective=dict(name='mlm')),),
        mesh=dict(data=2, fsdp=2, tensor=1),
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
    made = recipes.make(settings.plain(tiny.config(folder, steps=4, phases=phases)))
    params = made.shapes(made.phases[-1]).params
    predictor = sum(leaf.size for leaf in jax.tree.leaves(params['predictor']))
    assert 'predictor' not in made.shapes(made.phases[0]).params
    total = sum(leaf.size for leaf in jax.tree.leaves(params))
    rest = total - params['encoder']['embedding'].size
    network, budget = descriptions.introduction(made)
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
    config, workdir, _ = trained
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
        phases=(dict(objective=dict(name='mlm')),),
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
    limit = 'jepa_text.objectives.latent.diagnostics.MIN_RANK'
    for every, rank, times in ((1, None, 0), (0, 1.1, 0), (1, 1.1, 1)):
        if rank:
            monkeypatch.setattr(limit, rank)
        config['telemetry'] = dict(every_steps=every)
        assert int(tiny.train(config, tmp_path / f'{every}-{rank}').step) == 3
        said = ''.join(capsys.readouterr())
        assert said.count('the targets span') == said.count('collapse') == times


@pytest.mark.slow
def test_changed_rows_are_rejected_on_resume(run, tmp_path):
    config, workdir = run
    other = tiny.config(tmp_path, steps=4, phases=config['phases'])
    path = workdir / 'config.json'
    moved = json.loads(path.read_text())
    moved['data']['folder'] = other['data']['folder']
    shards = sorted(Path(other['data']['folder']).glob('train-*'))
    assert shards
    moved['seed'] = 1
    path.write_text(json.dumps(moved))
    with pytest.raises(ValueError, match='seed'):
        tiny.train(other | {'seed': 1}, workdir)


@pytest.mark.parametrize(
    ('phases', 'spans'),
    [
        ([dict(objective={})], [(0, 100)]),
        ([dict(fraction=0.25, objective={}), dict(objective={})], [(0, 25), (25, 100)]),
        (
            [dict(steps=99, objective={}), dict(steps=1, objective={})],
            [(0, 99), (99, 100)],
        ),
    ],
)
def test_phase_spans(phases, spans):
    assert budget.spans(phases, 100) == spans


def test_phase_spans_must_cover_the_run():
    with pytest.raises(ValueError, match='100'):
        budget.spans([dict(steps=99, objective={})], 100)


def drawn_schedule(rng, steps):
    """A schedule between 0 and 1 with numbers drawn at random, in steps or shares."""
    name = rng.choice([*schedules.SCHEDULES])
    section = {'name': str(name)}
    for key in inspect.signature(schedules.SCHEDULES[name]).parameters:
        if key.endswith('_steps') and rng.random() < 0.5:
            section[key] = int(rng.integers(1, steps))
        elif key.endswith('_steps'):
            section[key.replace('steps', 'fraction')] = rng.random()
        elif key != 'steps':
            section[key] = float(rng.uniform(0.1, 0.9))
    return section


def test_whatever_schedules_a_run_has_it_can_be_loaded(folder, tmp_path, monkeypatch):
    """Objectives are built as in training, in whose steps a warm-up has to fit."""
    rng, loaded = np.random.default_rng(draws.seed()), 0
    while loaded < 8:
        rate, momentum, balance = (drawn_schedule(rng, 40) for _ in range(3))
        hybrid = dict(
            name='hybrid',
            mlm=dict(rate=rate),
            latent=dict(momentum=momentum),
            balance=dict(name='schedule', of=balance),
        )
        first = dict(objective=dict(name='mlm', rate=rate), fraction=0.25)
        phases = (first, dict(objective=hybrid))
        size = rng.choice([dict(steps=160), dict(steps=0, tokens=160 * 8 * tiny.LENGTH)])
        config = settings.plain(tiny.config(folder, phases=phases, **size))
        try:
            recipe = recipes.outline(config)
        except ValueError:
            continue
        phase = recipe.phases[int(rng.integers(2))]
        meta = {'phase': phase.index, 'steps': recipe.steps, **recipe.identity}
        (tmp_path / 'config.json').write_text(json.dumps(config))
        recipe.tokenizer.save(tmp_path / 'tokenizer.json')
        newest = 160, meta
        monkeypatch.setattr(load.restore, 'newest_good', lambda _, newest=newest: newest)
        found = load.abstract(tmp_path)[1].network.objective
        for step in (0, phase.steps // 2):
            given, wanted = map(numbers_at, (found, phase.objective), (step, step))
            assert_array_equal(given, wanted)
        loaded += 1


def numbers_at(objective, step):
    """The scheduled numbers of an objective at a step of its phase."""
    if not hasattr(objective, 'latent'):
        return objective.rate
    weights = objective.balance.weights({}, {}, step)
    return [*weights, objective.latent.momentum(step), *objective.mlm.rate[:1]]
