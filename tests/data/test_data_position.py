"""The data of phases: mixtures, epochs, phases with their own data, and resuming with
moved rows, more steps, or other microbatches."""

import contextlib
import json
import shutil

import draws
import numpy as np
import pytest
import tiny

from jepa_text.data import data_position, pipeline, prepare
from jepa_text.data.rows import row_folder
from jepa_text.data.tokenizers import training
from jepa_text.pretrained import load
from jepa_text.running import metrics, workdir
from jepa_text.training import begin, train
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes

MLM = dict(objective=dict(name='mlm'))
QUIET = dict(every_steps=0, rate=0.15, max_rows=16)


@pytest.fixture(scope='module')
def folder(tmp_path_factory, ours):
    """rows: 192 of 32 tokens; other: the same; long: of 64 tokens."""
    folder = tmp_path_factory.mktemp('reading')
    tiny.rows(folder)
    lines = [f'On day {n} the {noun} slept.' for n in range(60) for noun in tiny.NOUNS]
    (folder / 'other.txt').write_text('\n\n'.join(lines))
    source = {'name': 'text', 'path': folder / 'other.txt', 'heldout_every': 5}
    for name, length in (('other', tiny.LENGTH), ('long', 64)):
        prepare.prepare(
            source=source, tokenizer=ours, folder=folder / name, row_length=length
        )
    return folder


def config(folder, /, phases=(MLM,), steps=6, **data):
    """Returns the config of a run on the folder `rows`, or on `data`."""
    data = dict(folder=str(folder / 'rows')) | data if 'mixture' not in data else data
    data = dict(row_length=tiny.LENGTH, batch_size=8) | data
    made = tiny.config(folder, data=data, phases=phases, steps=steps, evaluate=QUIET)
    made['telemetry']['every_steps'] = 0
    made['checkpoint'] = dict(every_steps=2, keep=9)
    return made


def both(folder, weights=(0.7, 0.3)):
    return [
        dict(folder=str(folder / name), weight=weight)
        for name, weight in zip(('rows', 'other'), weights)
    ]


def made(config):
    return recipes.make(settings.plain(config))


def test_invalid_data_is_rejected(folder, tmp_path):
    shutil.copytree(folder / 'rows', tmp_path / 'copy')
    two = both(folder)
    second = dict(objective=dict(name='clm'), data=dict(batch_size=16))
    section = dict(source=dict(name='bundled'), tokenizer='bundled', row_length=32)
    given = {
        'weight=0': dict(mixture=both(folder, (1, 0))),
        'weight=nan': dict(mixture=both(folder, (1, float('nan')))),
        'data.folder=.* and data.mixture with 2 parts': dict(
            mixture=two, folder=str(folder / 'rows')
        ),
        "data.folder='a' and data.mixture with 1 parts": dict(
            phases=(dict(MLM, data=dict(folder='a', mixture=two[1:])),)
        ),
        'have the same rows': dict(mixture=[*two, dict(folder=str(tmp_path / 'copy'))]),
        "have the same name 'text'": dict(
            mixture=[one | {'name': 'text'} for one in two]
        ),
        'long have 64 tokens, but the config has 32': dict(
            mixture=[*two, dict(folder=str(folder / 'long'))]
        ),
        'Phase 0 reads 48 rows, but none of .*other': dict(
            mixture=both(folder, (1, 1e-4))
        ),
        'no prepared rows in .*none: it has no m': dict(folder=str(tmp_path / 'none')),
        'Prepare each of them separately': dict(mixture=two, prepare=section),
        'tokens=4,096, but a phase has its own data': dict(
            phases=(dict(MLM, fraction=0.5), second), steps=0, tokens=4096
        ),
    }
    for message, data in given.items():
        top = {key: data.pop(key) for key in ('prepare', 'tokens') if key in data}
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            made(config(folder, **data) | top)


def test_parts_with_different_tokenizers_are_rejected(folder, tmp_path):
    own = training.train((folder / 'text.txt').read_text().split('\n\n'), 300)
    source = {'name': 'text', 'path': folder / 'text.txt', 'heldout_every': 9}
    prepare.prepare(source, own, tmp_path / 'small', row_length=tiny.LENGTH)
    parts = [*both(folder), dict(folder=str(tmp_path / 'small'))]
    with pytest.raises(ValueError, match='another tokenizer'):
        made(config(folder, mixture=parts))
    # Also across two phases.
    second = dict(objective=dict(name='mlm'), data=dict(folder=str(tmp_path / 'small')))
    with pytest.raises(ValueError, match='another tokenizer'):
        made(config(folder, phases=(dict(MLM, fraction=0.5), second)))


def test_ids_beyond_the_vocabulary_are_rejected(folder, tmp_path):
    """If the manifest is wrong, the embedding would silently use another token's row."""
    shutil.copytree(folder / 'rows', tmp_path / 'rows')
    row_folder.write_manifest(
        tmp_path / 'rows',
        row_folder.read_manifest(tmp_path / 'rows') | {'vocab_size': 100},
    )
    data = pipeline.Rows(tmp_path / 'rows', 'train')
    with pytest.raises(ValueError, match=r'the id \d+, the vocabulary has 100'):
        [data[index] for index in range(len(data))]


def test_rows_repeat_only_if_allowed(folder):
    count = len(pipeline.Rows(folder / 'rows', 'train'))
    enough, too_many = count // 8, count // 8 + 1
    assert made(config(folder, steps=enough)).steps == enough
    with pytest.raises(ValueError) as caught:
        made(config(folder, steps=too_many))
    said = str(caught.value)
    assert f'has {count:,} rows, but the run reads {8 * too_many:,}' in said
    assert f'{8 * too_many / count:.2f} epochs' in said
    assert '--config.data.repeat=True' in said
    made(config(folder, steps=too_many, repeat=True))
    # Counted over all phases that continue with the same rows.
    second = dict(objective=dict(name='clm'), data=dict(batch_size=16))
    halves = (dict(MLM, fraction=0.5), second)
    with pytest.raises(ValueError, match='rows, but the run reads'):
        made(config(folder, phases=halves, steps=enough))


def test_phases_of_one_stream_have_the_fingerprint_of_one_phase(folder):
    """So that checkpoints from before phases had their own data stay valid."""
    alone = made(config(folder)).fingerprint
    halves = (dict(objective=dict(name='clm'), fraction=0.5), MLM)
    assert made(config(folder, phases=halves)).fingerprint == alone
    same = dict(MLM, data=dict(folder=str(folder / 'rows'), batch_size=8))
    assert made(config(folder, phases=(halves[0], same))).fingerprint == alone
    for data in (dict(batch_size=4), dict(mixture=both(folder))):
        other = made(config(folder, phases=(halves[0], dict(MLM, data=data)))).fingerprint
        assert other != alone
        assert other[32:] == alone[32:]


def test_cursors(folder):
    phases = (
        dict(MLM, steps=3),
        dict(MLM, steps=2, data=dict(batch_size=4)),
        dict(MLM, data=dict(mixture=both(folder, (1, 1)))),
    )
    found = made(config(folder, phases=phases, steps=10)).phases
    assert [phase.row(phase.start) for phase in found] == [0, 24, 32]
    assert found[0].mixture is found[1].mixture is not found[2].mixture
    assert [part.before for part in found[2].mixture.parts] == [32, 0]
    assert data_position.epochs(found[2], 10) == {
        'data/rows/epochs': 52 / len(found[0].mixture.parts[0].rows),
        'data/other/epochs': 20 / len(found[2].mixture.parts[1].rows),
    }


def extended(folder):
    """CLM on short rows, then MLM on rows twice as long with another rope_theta."""
    data = dict(folder=str(folder / 'long'), row_length=64, batch_size=4)
    second = dict(MLM, rope_theta=160_000.0, data=data)
    first = dict(objective=dict(name='clm'), fraction=0.5)
    return config(folder, phases=(first, second), mixture=both(folder))


class _Stopped(Exception):
    pass


@pytest.fixture(scope='module')
def straight(folder, tmp_path_factory):
    """(config, workdir, hash of the final state) of six steps; the third ends a phase."""
    asked = extended(folder)
    asked['checkpoint'] = dict(every_steps=1, keep=9)
    workdir = tmp_path_factory.mktemp('straight') / 'run'
    end = tiny.fingerprint(tiny.train(asked, workdir))
    return asked, workdir, end


@pytest.mark.parametrize('last', draws.in_stages(3, 2, 4))
def test_resuming_before_at_and_after_the_switch(straight, tmp_path, monkeypatch, last):
    """The resumed run equals the uninterrupted run bit for bit."""
    asked, workdir, end = straight
    told, kept = tiny.log(workdir), train._Loop.save

    def save(self, state, phase, wait=False):
        kept(self, state, phase, wait=True)
        if int(state.step) == last:
            raise _Stopped

    with monkeypatch.context() as patch:
        patch.setattr(train._Loop, 'save', save)
        with pytest.raises(_Stopped):
            tiny.train(asked, tmp_path / 'again')
    assert tiny.fingerprint(tiny.train(asked, tmp_path / 'again')) == end
    assert tiny.log(tmp_path / 'again') == told
    total = [line['train/total_positions'] for line in told]
    assert total == [256 * n for n in range(1, 7)]


@pytest.mark.slow
def test_a_model_has_the_length_and_rope_theta_of_its_phase(straight):
    for step, length, theta in ((3, 32, 10_000), (6, 64, 160_000)):
        model = load.load(straight[1], step)
        assert model.length == length
        assert model.network.encoder.rope_theta == theta


@pytest.fixture(scope='module')
def begun(folder, tmp_path_factory):
    """A run of six steps; not modified by tests."""
    workdir = tmp_path_factory.mktemp('begun') / 'run'
    tiny.train(config(folder), workdir)
    return workdir


@pytest.fixture
def run(begun, tmp_path):
    """A copy of that run after four of its steps."""
    shutil.copytree(begun, tmp_path / 'run')
    shutil.rmtree(tmp_path / 'run' / 'checkpoints' / '6')
    return tmp_path / 'run'


def losses(workdir):
    return dict(zip(*metrics.series(metrics.read(workdir), 'train/loss')))


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['here', 'away'])
def test_rows_may_move(folder, begun, run, tmp_path, monkeypatch, kind):
    place = str(tmp_path / 'elsewhere')
    shutil.copytree(folder / 'rows', place)
    if kind == 'away':
        monkeypatch.setenv('JEPA_TEXT_CACHE', str(tmp_path / 'cache'))
        place = f'file://{place}'
    tiny.train(config(folder, folder=place), run)
    assert losses(run) == losses(begun)
    saved = json.loads((run / 'config.json').read_text())
    assert saved['data']['folder'] == place


@pytest.mark.slow
def test_other_rows_are_rejected(folder, run):
    before = (run / 'config.json').read_bytes()
    with pytest.raises(ValueError, match='another stream of data: other rows'):
        tiny.train(config(folder, folder=str(folder / 'other')), run)
    # The config still names the folder of its rows.
    assert (run / 'config.json').read_bytes() == before


# Other ways to compute the same values; chunks of one position.
HARMLESS = dict(
    name='renamed',
    accumulate=2,
    model=dict(
        name='transformer',
        preset='tiny',
        depth=1,
        scan=False,
        remat='full',
        attention='blockwise',
    ),
    phases=({'objective': dict(name='mlm', logits_mib=0)},),
    stop_after_skips=9,
    telemetry=dict(every_steps=0),
)


@pytest.mark.slow
def test_what_leaves_values_equal_may_change(folder, begun, run):
    tiny.train(config(folder) | HARMLESS, run)
    assert load.load(run, step=2) and load.load(run, step=6)
    found, straight = losses(run), losses(begun)
    assert {n: found[n] for n in range(1, 5)} == {n: straight[n] for n in range(1, 5)}
    np.testing.assert_allclose(
        [found[5], found[6]], [straight[5], straight[6]], rtol=1e-4
    )


@pytest.mark.parametrize(
    'changes, depends',
    [
        (dict(), False),
        (dict(latent=dict(regularizer=dict(name='sigreg', weight=0.1))), True),
        (dict(latent=dict(regularizer=dict(name='vicreg', weight=0.1))), True),
        (dict(latent=dict(distance='info_nce')), True),
        (dict(balance=dict(name='gradient_ratio')), True),
        (dict(name='ijepa', latent=dict(distance='info_nce')), True),
    ],
)
def test_microbatches_may_not_change_where_a_loss_depends_on_them(
    changes, depends, folder
):
    phases = ({'fraction': 0.5, **MLM}, dict(objective=dict(name='hybrid') | changes))
    made = recipes.outline(settings.plain(config(folder, phases)))
    may_change = settings.changeable_keys(phase.objective for phase in made.phases)
    assert list(workdir.disallowed({'accumulate': (1, 2)}, may_change)) == (
        ['accumulate'] if depends else []
    )


def test_other_microbatches_are_rejected(folder, tmp_path, monkeypatch):
    for other in (begin.switches, begin.self_test):
        monkeypatch.setattr(other, 'check', lambda *_: None)
    latent = dict(regularizer=dict(name='sigreg', weight=0.1))
    asked = config(folder, tiny.phases('hybrid', latent=latent))
    step = tmp_path / 'run' / 'checkpoints' / '1'

    def build(config):
        with contextlib.ExitStack() as stack:
            begin.recipe_of(config, tmp_path / 'run', stack)

    build(asked)
    step.mkdir(parents=True)
    (step / 'CHECKSUMS.json').write_text('{}')
    with pytest.raises(ValueError, match='another config: accumulate: 1 -> 2'):
        build(asked | {'accumulate': 2})


def test_other_batch_sizes_and_weights_are_rejected():
    names = ('batch_size', *(f'mixture.1.{key}' for key in ('folder', 'name', 'weight')))
    keys = dict.fromkeys(f'data.{name}' for name in names)
    rejected = workdir.disallowed(keys, settings.MAY_CHANGE)
    assert list(rejected) == ['data.batch_size', 'data.mixture.1.weight']


@pytest.mark.slow
def test_losses_of_parts_add_up(folder, tmp_path):
    """They add up to the loss of the batch, weighted by tokens; also on held-out rows."""
    asked = config(folder, mixture=both(folder, (0.6, 0.4)), steps=3)
    asked['evaluate'] = dict(every_steps=3, rate=0.3, max_rows=40)
    tiny.train(asked | {'accumulate': 2}, tmp_path)
    log = tiny.log(tmp_path)
    steps = [line for line in log if 'train/loss' in line]
    for line in steps:
        tokens = [line[f'data/{name}/tokens'] for name in ('rows', 'other')]
        assert min(tokens) > 0 and sum(tokens) == line['train/masked_tokens']
        losses = [line[f'data/{name}/loss'] for name in ('rows', 'other')]
        mean = np.average(losses, weights=tokens)
        assert mean == pytest.approx(line['train/mlm_loss'], rel=1e-5)
        assert losses[0] != losses[1]
    (held,) = [line for line in log if 'heldout/mlm_loss' in line and line['step'] == 3]
    parts = [held[f'heldout/{name}/mlm_loss'] for name in ('rows', 'other')]
    assert min(parts) < held['heldout/mlm_loss'] < max(parts)


def test_a_part_without_tokens_has_no_loss(folder):
    phase = made(config(folder, mixture=both(folder))).phases[0]
    values = {
        'train/loss': 1.0,
        'data_part/0/loss': 2.0,
        'data_part/0/tokens': 5.0,
        'data_part/1/loss': float('nan'),
        'data_part/1/tokens': 0.0,
    }
    assert data_position.named_metrics(phase, values) == {
        'train/loss': 1.0,
        'data/rows/loss': 2.0,
        'data/rows/tokens': 5.0,
    }


def test_another_seed_is_another_stream(folder):
    one, other = (made(config(folder) | {'seed': n}).fingerprint for n in (0, 1))
    with pytest.raises(ValueError, match=r'another stream of data: other seed \('):
        data_position.check_fingerprint(one, other)
    assert list(workdir.disallowed({'seed': (0, 1)}, settings.MAY_CHANGE)) == ['seed']
