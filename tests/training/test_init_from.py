"""Starting a run from another model: conversions, errors and exact resuming."""

import dataclasses
import functools
import json
import shutil

import hf_cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from numpy.testing import assert_allclose, assert_array_equal
from test_hf_import import flat, tensors_of

from jepa_text.data import tokenizers
from jepa_text.hf import adapt
from jepa_text.models import stack
from jepa_text.optim import schedules
from jepa_text.pretrained import load
from jepa_text.running import checkpoint, restore, workdir
from jepa_text.settings import config_file, resolve
from jepa_text.training import completion, heldout, init_from, own_loop
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes
from jepa_text.training import state as states

MLM = tiny.phases('mlm')


@pytest.fixture(scope='module')
def old(folder):
    """A run of 6 steps of CLM, two layers."""
    config = tiny.config(
        folder,
        steps=6,
        model=dict(name='transformer', preset='tiny', scan=True),
        phases=tiny.phases('clm'),
        evaluate=dict(every_steps=6, rate=0.15, max_rows=16),
    )
    tiny.train(config, folder / 'old')
    return folder / 'old'


def config_of(folder, old, steps=4, **changes):
    """Returns the config of an MLM run from the old one, which sets what is not given."""
    section = dict(path=str(old)) | changes.pop('init_from', {})
    given = dict(init_from=section, model={}, phases=MLM, steps=steps, log_every_steps=1)
    given |= dict(evaluate=dict(every_steps=4, rate=0.15, max_rows=16))
    return tiny.config(folder, **(given | changes))


def begun(config, folder, modules=('encoder', 'lm_head')):
    """Returns (recipe, first state of a run of this config), not trained.

    Modules that do not come from the start are only created if not in `modules`.
    """
    config = completion.with_init_from(settings.plain(config), folder)
    made = recipes.make(config)
    phase = made.phases[0]
    state = made.abstract_state(phase)
    if set(state.params) - set(modules):
        init = functools.partial(
            states.create, phase.network, phase.objective, made.optimizer, made.seed
        )
        state = jax.jit(init, out_shardings=made.shardings(phase))()
    folder.mkdir(exist_ok=True)
    return made, init_from.initialize(made, state, folder)


def same(one, other):
    one, other = flat(one), flat(other)
    assert one.keys() == other.keys()
    for path, leaf in one.items():
        assert_array_equal(leaf, other[path], err_msg=path)


@pytest.mark.slow
def test_a_run_continues_from_the_end_of_another(folder, old, tmp_path, capsys):
    """Its first evaluation equals the last one of CLM, on the same rows."""
    made, state = begun(config_of(folder, old), tmp_path / 'new')
    last = tiny.log(old)[-1]
    section = heldout.Config(every_steps=4, rate=0.15, max_rows=16)
    found = heldout.make(made, section).run(state.params, made.phases[0].network)
    assert len(found) == 6 and last['step'] == 6
    assert found == {name: last[name] for name in found}
    record = json.loads((tmp_path / 'new' / init_from.FILE).read_text())
    assert record['model']['preset'] == 'tiny' and record['tied'] is False
    said = capsys.readouterr().out
    assert 'old at step 6: clm' in said and all(line in said for line in record['lines'])


@pytest.mark.slow
def test_resuming_is_exact_and_does_not_read_the_start(
    folder, old, tmp_path, monkeypatch
):
    config = config_of(folder, old, steps=6, checkpoint=dict(every_steps=2, keep=3))
    config['evaluate'] = dict(every_steps=0)
    straight = tiny.train(config, tmp_path / 'straight')
    # Another member of a study, which shares the first steps.
    trunk = tmp_path / 'straight', 2
    tiny.train(config, tmp_path / 'branch', trunk=trunk)
    # As if killed between steps 4 and 6.
    shutil.copytree(tmp_path / 'straight', tmp_path / 'cut')
    for name in ('branch', 'cut'):
        shutil.rmtree(tmp_path / name / 'checkpoints' / '6')
    for module, name in ((init_from, 'describe'), (init_from, 'initialize')):
        monkeypatch.setattr(module, name, _never)
    record = (tmp_path / 'straight' / init_from.FILE).read_text()
    for name in ('branch', 'cut'):
        again = tiny.train(config, tmp_path / name)
        assert tiny.fingerprint(again) == tiny.fingerprint(straight)
        assert tiny.log(tmp_path / name) == tiny.log(tmp_path / 'straight')
        assert (tmp_path / name / init_from.FILE).read_text() == record
    with pytest.raises(ValueError, match='init_from.head'):
        changed = config | {'init_from': config['init_from'] | {'head': 'new'}}
        tiny.train(changed, tmp_path / 'cut')
    # The run can be loaded, so it can be a start itself.
    assert load.load(tmp_path / 'cut').network.encoder.depth == 2


def _never(*_):
    raise AssertionError('a resumed run asked its start')


@pytest.mark.slow
def test_layout_and_positions_may_differ(folder, old, tmp_path):
    """Unrolled instead of scanned, and another rope_theta."""
    model = dict(scan=False, rope_theta=50_000.0)
    made, state = begun(config_of(folder, old, model=model), tmp_path / 'new')
    encoder = made.phases[0].network.encoder
    assert (encoder.rope_theta, encoder.scan, encoder.width) == (50_000.0, False, 64)
    kept = load.load(old).params
    assert 'layer_1' in state.params['encoder']
    same(state.params['lm_head'], kept['lm_head'])
    stacked = init_from.transformer.stack_layers(state.params['encoder'])
    same(stacked, kept['encoder'])


def extended(folder):
    """Returns the bundled tokenizer with more tokens, the first before all others."""
    backend = tokenizers.load(tokenizers.BUNDLED).backend
    made = tokenizers.backend_library.Tokenizer.from_str(backend.to_str())
    made.add_tokens(['<new>', 'whalebone'])
    made.save(str(folder / 'tokenizer.json'))
    return tokenizers.load(folder / 'tokenizer.json')


@pytest.mark.slow
def test_old_tokens_keep_their_rows_in_a_larger_vocabulary(old, tmp_path):
    tokenizer = extended(tmp_path)
    tiny.rows(tmp_path, tokenizer)
    made, state = begun(config_of(tmp_path, old), tmp_path / 'new')
    model, count = load.load(old), tokenizer.vocab_size - 2
    embedding_VD = np.asarray(state.params['encoder']['embedding'])
    before_VD = np.asarray(model.params['encoder']['embedding'])
    assert embedding_VD.shape[0] == count + 2
    assert_array_equal(embedding_VD[:count], before_VD)
    assert_allclose(embedding_VD[count:], np.stack([before_VD.mean(0)] * 2), atol=1e-7)
    found, wanted = (
        np.asarray(x['lm_head']['output']['kernel']) for x in (state.params, model.params)
    )
    assert_array_equal(found[:, :count], wanted)


def test_tokens_are_matched_by_their_text(tmp_path):
    def tokenizer_with(name, listed):
        (tmp_path / name).mkdir()
        hf_cases.write_tokenizer(tmp_path / name, listed)
        return tokenizers.load(tmp_path / name / 'tokenizer.json')

    first = tokenizer_with('a', ['<pad>', '<bos>', '<eos>', '<mask>', 'w4', 'w5', 'w6'])
    other = tokenizer_with(
        'b', ['<mask>', '<pad>', '<bos>', '<eos>', 'w6', 'w4', 'x', 'y']
    )
    rows_V = init_from.token_rows(first, other, have=8, want=10)
    assert rows_V.tolist() == [3, 0, 1, 2, 6, 4, -1, -1, -1, -1]
    # A spare row, without a token, keeps its index.
    assert init_from.token_rows(first, first, 9, 9).tolist() == list(range(9))
    leaves = {
        'encoder/embedding': jnp.arange(16.0).reshape(8, 2),
        'lm_head/output/kernel': jnp.arange(8.0)[None],
        'lm_head/bias': jnp.arange(8.0),
    }
    moved = adapt.with_token_rows(leaves, rows_V, known=7)
    expected = [3, 0, 1, 2, 6, 4, 3, 3, 3, 3]
    assert_allclose(moved['encoder/embedding'][:, 0] / 2, expected, atol=1e-6)
    assert_allclose(moved['lm_head/output/kernel'][0], expected, atol=1e-6)
    assert_allclose(moved['lm_head/bias'], expected, atol=1e-6)


@pytest.mark.parametrize(
    'changes, theta, window',
    [
        ({}, [1e4, None], [None, 4]),
        (dict(rope_theta=5e5), [5e5, None], [None, 4]),
        (dict(rope_theta=[1.0, 2.0], window=3), [1.0, 2.0], [None, 3]),
    ],
)
def test_options_listed_by_layer_keep_those_without_any(changes, theta, window):
    section = dict(name='transformer', depth=2, rope_theta=[1e4, None], window=[None, 4])
    made = stack.changed(section, changes)
    assert (made['rope_theta'], made['window']) == (theta, window)


@pytest.mark.slow
def test_a_matched_run_takes_its_model_from_the_start(folder, old, tmp_path):
    hybrid = tiny.phases('hybrid', predictor_width=16)
    config = settings.plain(config_of(folder, old, phases=hybrid, baseline='flops'))
    config = completion.with_init_from(config, tmp_path)
    matched = completion.with_baseline(config)
    (phase,) = matched['phases']
    assert phase['objective']['name'] == 'mlm' and phase['steps'] > 4
    assert phase['objective']['tied'] is False
    assert matched['model']['preset'] == 'tiny'
    assert completion.with_init_from(matched, tmp_path) == matched


@pytest.mark.slow
def test_a_clm_run_uses_causal_attention(old):
    """Tokens are then predicted one position before."""
    model = load.load(old)
    for one in (model, load.untrained(old)):
        assert one.causal and one.shift == 1
    texts = ['The whale saw.', 'The whale spoke.']
    first, second = model.encode(texts, pool='cls')
    assert_array_equal(first, second)
    both = dataclasses.replace(model, causal=False).encode(texts, pool='cls')
    assert np.abs(both[0] - both[1]).max() > 0
    with pytest.raises(ValueError, match='not trained to predict masked tokens'):
        model.fill('The whale saw the <mask>.')


@pytest.mark.slow
def test_a_start_that_did_not_fit_can_be_corrected_in_the_same_folder(
    folder, old, tmp_path
):
    """Until a checkpoint exists; what the failed run recorded is not used."""
    path = tmp_path / 'run'
    wrong = settings.plain(config_of(folder, old, model=dict(depth=3)))

    def opened(config):
        with workdir.open_workdir(path, config, settings.MAY_CHANGE):
            return json.loads((path / 'config.json').read_text())

    opened(wrong)
    stale = {'model': {'name': 'nothing'}, 'tied': True, 'family': None, 'lines': []}
    (path / init_from.FILE).write_text(json.dumps(stale))
    right = wrong | {'init_from': wrong['init_from'] | {'head': 'new'}}
    assert completion.with_init_from(right, path)['model']['preset'] == 'tiny'
    assert opened(right)['init_from']['head'] == 'new'
    (path / 'checkpoints' / '1').mkdir(parents=True)
    with pytest.raises(ValueError, match='belongs to a run with another config'):
        opened(wrong)
    assert completion.with_init_from(right, path)['model']['name'] == 'nothing'


def test_rows_of_another_tokenizer_are_rejected(folder, foreign, tmp_path):
    rows = dict(source=dict(name='bundled'), row_length=tiny.LENGTH)
    config = config_of(folder, f'hf:{foreign}', prepare=dict(rows, tokenizer='init_from'))
    with pytest.raises(
        ValueError,
        match='The rows in .* not made with the tokenizer.*Set another data.folder',
    ):
        tiny.train(config, tmp_path / 'run')
    with pytest.raises(ValueError, match='The rows in .* not made with the tokenizer'):
        own_loop.steps(config)
    assert not (tmp_path / 'run').exists()
    # A resumed run, or one that names its tokenizer, does not read the start.
    place = config['data']['folder']
    init_from.check_rows(config['init_from'], 'bundled', place, tmp_path / 'run')
    (tmp_path / 'run' / 'checkpoints' / '1').mkdir(parents=True)
    for file in (init_from.FILE, 'checkpoints/1/CHECKSUMS.json'):
        (tmp_path / 'run' / file).write_text('')
    init_from.check_rows(dict(path='hf:gone'), 'init_from', place, tmp_path / 'run')


@pytest.mark.slow
def test_heads(folder, old, tmp_path):
    kept = load.load(old).params
    config = config_of(folder, old, init_from=dict(head='new'))
    _, anew = begun(config, tmp_path / 'a', modules=())
    kernels = [np.asarray(x['lm_head']['output']['kernel']) for x in (anew.params, kept)]
    assert np.abs(kernels[0] - kernels[1]).max() > 1e-3
    same(anew.params['encoder'], kept['encoder'])
    tied = tiny.phases('mlm', tied=True)
    with pytest.raises(ValueError, match="tied=True would discard.*init_from.head='new'"):
        begun(config_of(folder, old, phases=tied), tmp_path / 'b')


@pytest.mark.slow
def test_new_weights_equal_those_of_a_run_without_init_from(
    folder, old, tmp_path, capsys
):
    """The same model from scratch, as a baseline for the start."""
    config = config_of(folder, old, init_from=dict(weights='new'))
    _, state = begun(config, tmp_path / 'a', modules=())
    made = recipes.make(completion.with_init_from(settings.plain(config)))
    fresh = jax.jit(functools.partial(made.phases[0].network.init, made.seed))()
    same(state.params, fresh)
    assert 'only shape and tokenizer' in capsys.readouterr().out


@pytest.mark.slow
def test_moments_are_kept_if_they_fit(folder, old, tmp_path):
    """With another objective, whose own modules are new."""
    section = dict(name='hybrid', predictor_width=16)
    config = config_of(
        folder, old, init_from=dict(optimizer='kept'), phases=(dict(objective=section),)
    )
    _, state = begun(config, tmp_path / 'new')
    assert int(state.step) == 0
    saved = restore.record(old / 'checkpoints' / '6').kinds
    moments = {k: v for k, v in flat(state.opt_state).items() if 'mu/encoder' in k}
    assert moments and all(np.abs(v).max() > 0 for v in moments.values())
    assert f'opt_state/{next(iter(moments))}' in saved
    assert not any(
        np.any(v) for k, v in flat(state.opt_state).items() if '/predictor/' in k
    )
    same(state.target, state.params['encoder'])
    same(state.params['encoder'], load.load(old).params['encoder'])
    for changes, says in (
        (dict(optimizer=dict(name='sgd')), 'was trained with'),
        (dict(model=dict(scan=False)), 'encoder/layers/.* in the start, not expected'),
    ):
        config = config_of(
            folder, old, **{**changes, 'init_from': dict(optimizer='kept')}
        )
        with pytest.raises(ValueError, match=says):
            begun(config, tmp_path / 'bad')


@pytest.mark.slow
def test_target_and_balance_are_kept_with_the_moments(folder, old, tmp_path):
    section = dict(name='hybrid', predictor_width=16, balance={'name': 'gradient_ratio'})
    changes = dict(init_from=dict(optimizer='kept'), phases=(dict(objective=section),))
    one, two = tmp_path / 'one', tmp_path / 'two'
    config = settings.plain(config_of(folder, old, **changes))
    made, state = begun(config, one)
    means = {name: jnp.float32(0.5) for name in made.phases[0].objective.memory()}
    target = jax.tree.map(lambda leaf: leaf + 1, state.target)
    state = state.replace(target=target, memory=state.memory | means)
    config = completion.with_init_from(config, one)
    (one / 'config.json').write_text(json.dumps(config))
    made.tokenizer.save(one / 'tokenizer.json')
    with checkpoint.Checkpointer(one / 'checkpoints') as store:
        store.save(state, made.meta(made.phases[0], 0), wait=True)
    _, found = begun(config_of(folder, one, **changes), two)
    same(found.target, target)
    assert len(means) == 3 and all(found.memory[name] == 0.5 for name in means)


@pytest.mark.parametrize(
    'section, says',
    [
        (dict(paht='x'), "Did you mean 'path'"),
        (dict(path='x', head='tied'), "head='tied'"),
        (dict(path='x', weights='none'), "weights='none'"),
        (
            dict(path='x', weights='new', optimizer='kept'),
            "weights='new' and head='keep'",
        ),
        (dict(path='x', head='new', optimizer='kept'), "weights='keep' and head='new'"),
        (dict(path='hf:x', step=3), 'neither steps nor moments'),
        (dict(path='x', adapt=dict(head='new')), 'only apply to models'),
        (dict(path='nowhere'), 'contains no config.json'),
    ],
)
def test_invalid_sections_are_rejected(folder, section, says):
    config = tiny.config(folder, init_from=section, model={})
    with pytest.raises((ValueError, FileNotFoundError), match=says):
        completion.with_init_from(settings.plain(config))


@pytest.mark.slow
def test_a_model_of_another_shape_is_rejected(folder, old, tmp_path):
    with pytest.raises(ValueError, match='ffn/up/kernel is .* in the start'):
        begun(config_of(folder, old, model=dict(ffn_width=96)), tmp_path / 'a')
    whole = dict(name='transformer', preset='tiny', qk_norm=True)
    with pytest.raises(ValueError, match='q_norm/scale is not in the start'):
        begun(config_of(folder, old, model=whole), tmp_path / 'c')


@pytest.fixture(scope='module')
def foreign(folder):
    """A Llama with a word-level tokenizer, in the format of Hugging Face."""
    path = folder / 'llama'
    path.mkdir()
    hf_cases.write(path, hf_cases.CASES['llama_tied'][0], tensors_of('llama_tied'))
    words = [w for w in hf_cases.WORDS if w != '<mask>'] + ['w40']
    hf_cases.write_tokenizer(path, words)
    return path


def test_a_start_without_a_head_gets_one_and_says_so(folder, tmp_path, capsys):
    """A BertModel, as sentence-transformers saves its first module."""
    of_encoder = {n: x for n, x in tensors_of('bert').items() if n.startswith('bert.')}
    given = hf_cases.CASES['bert'][0] | dict(architectures=['BertModel'])
    start = f'hf:{hf_cases.write(tmp_path, given, of_encoder)}'
    config = config_of(folder, start, model=dict(vocab_rows=2048))
    made, state = begun(config, tmp_path / 'run', modules=('encoder',))
    said = f'{start} has no LM head; a new one is trained.'
    assert capsys.readouterr().out.count(said) == 1
    assert made.settings.init_from.head == 'new'
    assert {*state.params['lm_head']} >= {'dense', 'bias'}  # tied, as BERT's is
    layers = load.load(f'hf:{tmp_path}').params['encoder']['layers']
    jax.tree.map(assert_array_equal, state.params['encoder']['layers'], layers)
    # What is recorded is not said again.
    (tmp_path / 'run' / 'checkpoints' / '1').mkdir(parents=True)
    again = completion.with_init_from(settings.plain(config), tmp_path / 'run')
    assert again['init_from']['head'] == 'new' and capsys.readouterr().out == ''


@pytest.mark.slow
def test_a_hugging_face_decoder_becomes_an_encoder(folder, foreign, tmp_path):
    text = '\n\n'.join(' '.join(hf_cases.WORDS[4 + i : 20 + i]) for i in range(16))
    (tmp_path / 'text.txt').write_text(text)
    source = {'name': 'text', 'path': str(tmp_path / 'text.txt'), 'heldout_every': 4}
    config = config_of(
        folder,
        f'hf:{foreign}',
        init_from=dict(adapt=dict(head='keep')),
        steps=2,
        prepare=dict(source=source, tokenizer='init_from', row_length=16, shards=1),
        data=dict(
            folder=str(tmp_path / 'rows'), row_length=16, batch_size=8, repeat=True
        ),
        phases=tiny.phases('mntp'),
        optimizer=dict(name='adamw', lr_multipliers=(('layer_[01]/', 0.0),)),
        schedule=1e-3,
        evaluate=dict(every_steps=0),
    )
    state = tiny.train(config, tmp_path / 'run')
    imported = load.load(f'hf:{foreign}', adapt={})
    model = load.load(tmp_path / 'run')
    assert model.tokenizer.fingerprint == imported.tokenizer.fingerprint
    assert (model.shift, model.params['lm_head']) == (1, {})
    assert model.network.encoder.depth == 4
    record = json.loads((tmp_path / 'run' / init_from.FILE).read_text())
    assert record['family'] == 'llama' and any('mask' in x for x in record['lines'])
    before, after = flat(imported.params), flat(state.params)
    for path in after:
        moved = before[path] != after[path]
        if '/layers/' in path:
            assert not moved[:2].any() and moved[2:].any(), path
        else:
            assert moved.any(), path


@pytest.mark.slow
def test_the_config_of_continued_pretraining(old, foreign, tmp_path):
    for argument, steps, peak_at_0 in (
        (f'hf:{foreign},steps=2000', 2000, True),
        (f'{old},steps=22000,objective=mntp', 22_000, False),
        (f'{old},steps=500', 500, False),
    ):
        config = config_file.read(f'cpt:{argument}')
        assert config['steps'] == steps
        whole = completion.with_init_from(config)
        model = resolve.build('models', whole['model'], vocab_size=40)
        assert model.dtype == 'bfloat16' and model.depth in (2, 4)
        schedule = schedules.make(config['schedule'], steps)
        assert (float(schedule(0)) > 4e-4) == peak_at_0
        assert float(schedule(steps // 2)) < 5.1e-4 and float(schedule(steps - 1)) == 0.0
        assert float(schedule(steps - 2001 if steps > 2000 else 0)) > 0
        objective = config['phases'][0]['objective']['name']
        assert objective == ('mntp' if 'mntp' in argument else 'mlm')
    # Which the config of a run refuses.
    assert config_file.read(f'cpt:{old},steps=0')['steps'] == 0
    (tmp_path / 'sets').mkdir()
    (tmp_path / 'sets/one.jsonl').touch()
    small = config_file.read(
        f'cpt:{old},steps=300,size=toy,objective=clm,sets={tmp_path}/sets'
    )
    assert small['data']['folder'].startswith('runs/rows-128-old-')
    assert small['steps'] == 300
    assert small['phases'][0]['objective'] == {'name': 'clm'}
    (decontaminated,) = small['prepare']['clean']['decontaminate']
    assert decontaminated['name'] == 'one'
    # Rows belong to the tokenizer of one start.
    folders = [
        config_file.read(f'cpt:{path},size={size}')['data']['folder']
        for path in ('hf:a/x', 'hf:b/x', 'runs/x')
        for size in ('paper', 'toy')
    ]
    assert len(set(folders)) == 6 and 'runs/rows-cpt-x-' in folders[0]
