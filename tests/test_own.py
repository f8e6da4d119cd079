"""Modules of the user's own, by dotted names: those of docs/adding.md, and others."""

import shutil
import sys
from pathlib import Path

import draws
import examined
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import readme
import test_objectives
import tiny
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text import main
from jepa_text.data import sources
from jepa_text.evaluation import config as finetuning
from jepa_text.evaluation import examiner, tasks
from jepa_text.evaluation.members import grid
from jepa_text.objectives.latent import balance
from jepa_text.optim import schedules
from jepa_text.parallel import sharding
from jepa_text.planning import plan
from jepa_text.pretrained import export, exported, load, saved
from jepa_text.running import metrics
from jepa_text.settings import resolve
from jepa_text.training import config as settings
from jepa_text.training import preflight, switches
from jepa_text.training import recipe as recipes

ADDING = Path(__file__).parents[1] / 'docs' / 'adding.md'
OTHERS = {
    'model': """
        from jepa_text.models import transformer

        def make(vocab_size, width=16):
            sizes = dict(width=width, depth=1, heads=2, kv_heads=2, ffn_width=32)
            return transformer.make(vocab_size=vocab_size, **sizes)
    """,
    'encoder': """
        import flax.linen as nn
        import jax.numpy as jnp
        from jepa_text.models import layers

        class Tokens(nn.Module):
            vocab_size: int
            width: int
            attention: str = 'auto'
            remat: str = 'none'
            dtype: str = 'float32'
            depth, head = 1, None

            @nn.compact
            def __call__(self, tokens, *_, causal, every_layer=False, gaps=False):
                shape = self.vocab_size, self.width
                x = self.param('embedding', layers.INIT, shape, jnp.float32)[tokens]
                return (x, jnp.stack([x, x])) if every_layer else x

        make = Tokens
    """,
    'source': """
        def make(split, words='a whale'):
            yield {'text': f'{split} {words}'}
    """,
    'task': """
        from jepa_text.evaluation.sets import task

        def make(metric='accuracy'):
            found = task.examples(['a', 'b', 'c', 'd'], target=[0, 1, 0, 1])
            return task.Task('mine', 'labels', metric, found, found)
    """,
    'balance': """
        import dataclasses
        from jepa_text.objectives.latent.balance import Balance

        @dataclasses.dataclass(frozen=True)
        class Late(Balance):
            steps: int
            top: float

            def share(self, params, memory, step):
                return self.top * step / self.steps

        def make(steps, top=0.5):
            return Late(steps, top)
    """,
    'schedule': """
        def make(steps, peak):
            return lambda step: peak * (1 - step / steps)
    """,
    'broken': 'import no_such_module_at_all\n',
    'nothing': 'LAMBDA = 0.5\n',
}


SIZES = dict(width=8, depth=1, heads=2, kv_heads=2, ffn_width=32)
NETS = """
from jepa_text.models import transformer

class Net(transformer.Transformer):
    pass

def make(vocab_size, width=8):
    sizes = dict(width=width, depth=1, heads=2, kv_heads=2, ffn_width=32)
    return Net(vocab_size=vocab_size, **sizes)
"""
ALL = NETS.replace('width=8', '**sizes').replace('    sizes = dict', '    assert dict')
ALL = ALL.replace('width=width', 'width=8')


@pytest.fixture(scope='module', autouse=True)
def lab(tmp_path_factory):
    """A folder with the package my_lab, which Python finds."""
    folder = tmp_path_factory.mktemp('lab')
    readme.write(ADDING.read_text(encoding='utf-8').replace('"runs/', '"'), folder)
    for name, source in OTHERS.items():
        indented = source.startswith('\n')
        lines = [line[8:] if indented else line for line in source.splitlines()]
        (folder / 'my_lab' / f'{name}.py').write_text('\n'.join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder
    for name in [name for name in sys.modules if name.split('.')[0] == 'my_lab']:
        del sys.modules[name]


@pytest.fixture(scope='module')
def command(lab):
    """The words of a command on the config of the page, with tiny rows."""
    given = [
        f'--config={lab}/my_lab/config.py',
        f'--config.data.folder={tiny.rows(lab)}',
        f'--config.data.row_length={tiny.LENGTH}',
        f'--config.prepare.row_length={tiny.LENGTH}',
        '--config.model.depth=1',
        '--config.steps=6',
        '--config.evaluate={"every_steps": 3, "max_rows": 16}',
        '--config.checkpoint.every_steps=2',
        '--config.checkpoint.keep=9',
    ]
    return lambda name, *more: ['jepa-text', name, *given, *more]


@pytest.mark.long
def test_an_objective_of_ones_own_starts_from_a_model(command, lab):
    base, folder = lab / 'base', lab / 'started'
    plain = '--config.phases=[{"objective": {"name": "mlm"}}]'
    assert main.main(command('train', plain, f'--workdir={base}')) == 0
    start = f'--config.init_from={{"path": "{base}"}}'
    assert main.main(command('train', start, f'--workdir={folder}')) == 0
    assert str(base) in (folder / 'init_from.json').read_text()


@pytest.mark.slow
def test_objectives_of_ones_own_train_resume_load_and_are_scored(command, lab, capsys):
    """Replaced token detection, which predicts no tokens, and then denoising."""
    folder = lab / 'run'
    assert main.main(command('train', f'--workdir={folder}')) == 0
    log = tiny.log(folder)
    values = {key: x for line in log for key, x in line.items()}
    for name in ('train/rtd_loss', 'train/rtd_accuracy', 'heldout/denoising_loss'):
        assert np.isfinite(values[name])
    said = f'Held-out denoising loss: {values["heldout/denoising_loss"]:.3f} nats'
    err = capsys.readouterr().err
    assert said in err and err.count('phase 0: the objective has no lm_head') == 1
    before = load.load(folder, step=2)
    assert set(load.abstract(folder, 2)[1].network.modules) == {'encoder', 'detector'}
    model = load.load(folder)
    assert said.split(' nats')[0] in model.facts().sentences[0]
    assert 'lm_head' in model.params and 'lm_head' not in before.params
    assert not model.causal and np.isfinite(model.encode(['a whale'])).all()
    # From a checkpoint, the same again; beside it, nothing changes.
    for path in (folder / 'checkpoints').glob('[46]*'):
        shutil.rmtree(path)
    assert main.main(command('train', f'--workdir={folder}')) == 0
    again = load.load(folder)
    jax.tree.map(assert_array_equal, model.params, again.params)
    assert metrics.newest(folder, 'heldout/')[0] == 6


@pytest.mark.slow
def test_a_plan_counts_what_it_does_not_know(command, monkeypatch):
    plans = []
    monkeypatch.setattr(plan.tables, 'show', lambda name, made: plans.append(made))
    assert main.main(command('plan')) == 0
    rtd, denoising = plans[0].phases
    assert set(rtd.count.parts) == {'encoder', 'detector'}
    # Every position, 2 x 3 for each entry of the detector's kernel.
    width, rows = 64, rtd.rows
    assert rtd.count.parts['detector'] == 6 * width * rows * tiny.LENGTH
    assert rtd.count.parts['encoder'] == denoising.count.parts['encoder']
    assert rtd.memory.scores == 0 and denoising.memory.scores > 0


def test_a_task_of_ones_own_is_taken_from_a_command_line():
    task = tasks.build(tasks.section_of('my_lab.has_word'))
    assert (task.name, task.kind) == ('has_whale', 'labels')
    for side in (task.train, task.test):
        asked = dict(zip(side.first, side.target))
        assert set(asked.values()) == {'yes', 'no'}
        assert all(
            ('whale' in t.lower().split()) == (a == 'yes') for t, a in asked.items()
        )
    assert tasks.build({'name': 'my_lab.has_word', 'word': 'sea'}).name == 'has_sea'


@pytest.mark.slow
def test_others_are_made_by_their_names():
    model = resolve.build('models', {'name': 'my_lab.model', 'width': 8}, vocab_size=9)
    assert (model.width, model.vocab_size) == (8, 9)
    source = resolve.build('data/sources', {'name': 'my_lab.source'}, split='train')
    assert next(source)['text'] == 'train a whale'
    task = resolve.build('evaluation/tasks', {'name': 'my_lab.task'})
    assert task.name == 'mine' and len(task.train) == 4
    rule = balance.make({'name': 'my_lab.balance', 'top': 0.4}, steps=10)
    assert_allclose(rule.weights({}, {}, jnp.float32(5)), (0.2, 0.8))
    schedule = schedules.make({'name': 'my_lab.schedule', 'peak': 2.0}, steps=4)
    assert schedule(3) == 0.5
    latent = test_objectives.build('hybrid', balance={'name': 'my_lab.balance'})
    loss, values = test_objectives.evaluate(latent, test_objectives.batch_of(latent))
    assert np.isfinite(loss) and values['jepa/lambda'] == 0


@pytest.mark.slow
def test_a_model_of_ones_own_is_planned_loaded_and_tuned(lab, tmp_path):
    """Of a class with only the needed fields; one of another class gets them all."""
    phases = tiny.phases('mlm')
    own = dict(name='my_lab.encoder', width=8)
    config = tiny.config(tmp_path, steps=2, model=own, phases=phases)
    (planned,) = plan.plan(config | dict(mesh=dict(tensor=8))).values()
    assert planned.phases[0].parameters['embedding'] > 0
    tiny.train(config, tmp_path / 'run')
    model = load.load(tmp_path / 'run')
    assert model.network.encoder.width == 8 and model.encode(['a']).shape == (1, 8)
    model.save(tmp_path / 'saved')
    assert_allclose(load.load(tmp_path / 'saved').encode(['a']), model.encode(['a']))
    with pytest.raises(ValueError, match='my_lab.encoder.Tokens, an architecture of'):
        export.write(model, tmp_path / 'exported')
    settings = finetuning.Finetuning(steps=2, batch_size=4)
    tuned = examiner.examination_of(model, examined.labeled(), settings)
    ((_, result),) = tuned.run([grid.Member(1e-3, 0)])
    assert result.outcome['status'] != 'not finite'
    assert 'no class of transformers' in exported.obstacle(tuned.kind, model)
    (lab / 'my_lab' / 'nets.py').write_text(NETS)
    encoder = resolve.build('models', {'name': 'my_lab.nets'}, vocab_size=9)
    with pytest.raises(ValueError, match="my_lab.nets does not take 'depth'"):
        saved.section_of(encoder)
    (lab / 'my_lab' / 'all_nets.py').write_text(ALL)
    section = dict(name='my_lab.all_nets', **SIZES)
    encoder = resolve.build('models', section, vocab_size=9)
    assert saved.section_of(encoder)['name'] == 'my_lab.all_nets'


@pytest.mark.parametrize(
    'name, words',
    [
        ('my_lab.absent', "'my_lab.absent' cannot be imported: No module named 'my_lab."),
        (
            'no_lab.rtd',
            "'no_lab.rtd' cannot be imported: No module named 'no_lab'.*PYTHON",
        ),
        ('my_lab.broken', "cannot be imported: No module named 'no_such_module_at_all'"),
        ('my_lab.nothing', "module 'my_lab.nothing' has no function `make`"),
        ('.rtd', "'.rtd' cannot be imported"),
        ('base', "objectives has no 'base'.* Available: clm, hybrid.* dotted name"),
        ('latent', "objectives has no 'latent'"),
    ],
)
def test_a_wrong_name_says_what_failed(name, words):
    with pytest.raises(ValueError, match=words):
        resolve.build('objectives', {'name': name})
    if '.' in name:
        for make in (balance.make, schedules.make):
            with pytest.raises(ValueError, match=words.split('.*')[0]):
                make({'name': name}, 10)


FEWER = """class Fewer(transformer.Transformer):
        def __call__(self, *ids, every_layer=False, **given):
            hidden_BLD = super().__call__(*ids, **given)
            return (hidden_BLD, hidden_BLD[None]) if every_layer else hidden_BLD
"""
TABLE = """class Table(transformer.Transformer):
        def embed(self, tokens_BL, positions_BL):
            from flax.linen import Embed
            return Embed(self.vocab_size, self.width, name='embedding')(tokens_BL)
"""
FAULTS = [
    # file, what is replaced in it, by what, and the message
    ('rtd', ', {}\n', '\n', r'py\): ValueError: not enough values.*expected 3'),
    (
        'rtd',
        'return loss, {',
        'return loss_BL, {',
        'Gradient only defined for scalar-output functions',
    ),
    (
        'rtd',
        'def loss(self, params, view)',
        'def loss(self, params)',
        r'TypeError.*loss\(',
    ),
    ('rtd', "batch['inputs'] !=", "batch['input'] !=", r'line \d+, in loss\): KeyError'),
    ('rtd', "{'tokens': jnp", "{'token': jnp", "KeyError: 'tokens'"),
    ('rtd', 'return example | ', 'return ', 'KeyError'),
    ('rtd', 'def counts', 'def count', 'NotImplementedError: counts'),
    ('rtd', 'return RTD(', 'RTD(', 'make returned None, no instance of a sub'),
    ('rtd', 'make(tokenizer, ', 'make(', "`make` must take the keyword 'tokenizer'"),
    ('denoising', 'def scorings', 'def scoring', 'NotImplementedError: scorings'),
    ('rtd', 'return RTD(rate=rate', 'return RTD(rat=rate', r'in make\): TypeError'),
    ('rtd', 'Objective):', 'Objective:', 'SyntaxError'),
    ('denoising', 'frozen=True, ', '', r'line \d+, in .*TypeError.*non-frozen'),
    (
        'model',
        'return transformer.make(vocab_size=',
        'import types; return types.SimpleNamespace(attention="auto", vocabulary=',
        'it has no vocab_size',
    ),
    ('model', 'return transformer', 'transformer', 'make returned NoneType.* no width'),
    (
        'model',
        'return transformer.make(',
        FEWER + '    return Fewer(',
        r'must return hidden_BLD and depth . 1 layers',
    ),
    (
        'model',
        'return transformer.make(',
        TABLE + '    return Table(',
        r"must have a self.param\('embedding', ...\), \[vocab_size",
    ),
    ('balance', 'return Late', 'Late', 'make returned None, not a Balance'),
    ('balance', 'return self.top', 'return self.to', r'in share\): AttributeError'),
    ('schedule', 'return lambda step: ', 'return ', r'in make\): NameError'),
    ('schedule', 'peak * (1', '[peak] * (1', r'in <lambda>\): '),
]


HYBRID = """
import jax
from jepa_text.objectives import hybrid

def make(**given):
    made = hybrid.make(**given)
    kind = type('Mine', (type(made),), {'METHOD': lambda self, *given: VALUE})
    return kind(**vars(made))
"""


@pytest.mark.parametrize(
    'method, value, words',
    [
        ('update_target', 'jax.tree.map(lambda x: x[:1], given[0])', r'turn a .* into'),
        ('update_memory', 'given[0] | {"more": 1.0}', 'ValueError'),
        ('derived', 'None', 'TypeError'),
    ],
)
def test_a_fault_after_the_loss_is_found_before_a_run(method, value, words, lab, folder):
    name = f'mine_{len(list((lab / "my_lab").iterdir()))}'
    source = HYBRID.replace('METHOD', method).replace('VALUE', value)
    (lab / 'my_lab' / f'{name}.py').write_text(source)
    config = tiny.config(folder, steps=2, phases=tiny.phases(f'my_lab.{name}'))
    with pytest.raises(ValueError, match=f'my_lab.{name} failed.*{words}'):
        switches.check(recipes.make(settings.plain(config)))


@pytest.mark.parametrize(
    'file, old, new, words',
    draws.in_stages(*(x for n in range(3) for x in FAULTS[n::3]), fast=7, slow=99),
)
def test_a_fault_of_ones_own_is_found_before_a_run(file, old, new, words, lab):
    """By `plan`, which traces it; no file is written and nothing is computed."""
    source = (lab / 'my_lab' / f'{file}.py').read_text()
    assert old in source
    name = f'faulty_{file}_{len(list((lab / "my_lab").iterdir()))}'
    (lab / 'my_lab' / f'{name}.py').write_text(source.replace(old, new))
    section = dict(name=f'my_lab.{name}')
    objective = dict(name='mlm')
    if file in ('rtd', 'denoising'):
        objective = section
    elif file == 'balance':
        objective = dict(name='hybrid', balance=section)
    config = dict(
        steps=2,
        data=dict(row_length=16, batch_size=8),
        prepare=dict(tokenizer='bundled', row_length=16, source=dict(name='bundled')),
        model=section if file == 'model' else dict(name='transformer', preset='tiny'),
        phases=(dict(objective=objective),),
        schedule=section | {'peak': 1.0} if file == 'schedule' else 1e-3,
    )
    with pytest.raises(ValueError, match=words) as error:
        recipes.outline(settings.plain(config), sharding.make_mesh())
    assert f'my_lab.{name}' in str(error.value)


@pytest.mark.parametrize(
    'name, build, words',
    [
        (
            'string',
            lambda x: [*sources.build(x, 'train')],
            "document 0 is 'no dict', not",
        ),
        ('broken', lambda x: [*sources.build(x, 'train')], 'line 2, in make.*Division'),
        ('string', tasks.build, "must take the keyword|requires 'split'"),
        ('none', tasks.build, 'none.py.: make returned NoneType, no Task'),
    ],
)
def test_a_fault_in_a_source_or_a_task_of_ones_own_is_named(name, build, words, lab):
    made = {
        'string': "def make(split):\n    yield 'no dict'\n",
        'broken': 'def make(split):\n    yield 1 / 0\n',
        'none': 'def make():\n    pass\n',
    }[name]
    (lab / 'my_lab' / f'faulty_{name}.py').write_text(made)
    with pytest.raises(ValueError, match=words):
        build({'name': f'my_lab.faulty_{name}'})


def test_an_error_of_the_disk_or_network_stays_one_that_is_retried():
    with pytest.raises(TimeoutError), resolve.user_faults(['my_lab.source']):
        raise TimeoutError('no answer')


def test_a_wrong_keyword_of_ones_own_is_named():
    with pytest.raises(ValueError, match="my_lab.rtd does not take 'rat'.*'rate'"):
        test_objectives.build('my_lab.rtd', rat=0.3)


@pytest.mark.parametrize(
    'name',
    draws.in_stages('my_lab.rtd', 'my_lab.denoising', *test_objectives.ALL, slow=2),
)
def test_every_objective_keeps_the_contract(name):
    """What a step, a checkpoint and a plan ask of it, and nothing else."""
    objective = test_objectives.build(name)
    if '.' in name:  # else it is in ALL there
        test_objectives.test_contract(name)
        test_objectives.test_parts_add_up_to_the_batch(name)
        test_objectives.test_a_batch_of_padding_costs_nothing(name)
    network, batch = (
        test_objectives.network_of(objective),
        test_objectives.batch_of(objective),
    )
    memory, token = objective.memory(), objective.token_objective
    seen = jax.eval_shape(
        lambda params: objective.loss(
            params,
            test_objectives.view_of(objective, network, batch, None, params['encoder']),
        ),
        jax.eval_shape(lambda: network.init(0)),
    )[2]
    look = dict.fromkeys(objective.diagnostic_names, jnp.nan)
    after = jax.eval_shape(lambda seen: objective.update_memory(memory, seen, look), seen)
    assert jax.tree.structure(after) == jax.tree.structure(memory)
    assert (objective.diagnostics_every(7) == 0) == (not objective.diagnostic_names)
    assert objective.notes({}) == {}
    assert (objective.baseline({'name': name}) is None) == (not objective.has_target)
    assert ('lm_head' in network.modules) == (token is not None)
    if token is not None:
        assert token.token_objective is token and token.attends in (
            'bidirectional',
            'causal',
            'rows',
        )
        assert all('name' in section for section in token.scorings(0.15).values())
    assert preflight.cost(network, objective, batch).parts['encoder'] > 0
