"""Imported models compute the same as in `transformers`, and invalid folders raise clear
errors."""

import functools
import json
from pathlib import Path

import draws
import hf_cases
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hf_cases import CASES, V
from numpy.testing import assert_allclose, assert_array_equal
from references import make_hf
from safetensors.numpy import save_file

from jepa_text.hf import configs, files, load, weights
from jepa_text.hf.families import FAMILIES
from jepa_text.models import heads
from jepa_text.parallel import leaves, sharding
from jepa_text.pretrained import load as of_any
from jepa_text.settings import resolve

# Cases that differ little from others.
VARIANTS = {
    *('llama_tied', 'bert_untied', 'xlm-roberta'),
    *('modernbert_one_layer', 'modernbert_biases'),
}
REFERENCES = Path(__file__).parents[1] / 'references' / 'hf.npz'


@functools.cache
def references():
    with np.load(REFERENCES) as found:
        arrays = dict(found)
    return json.loads(str(arrays.pop('about'))), arrays


def expected(case):
    """The saved logits of each document by transformers."""
    return [references()[1][f'{case}/{index}'] for index in range(2)]


def tensors_of(case):
    about, _ = references()
    return hf_cases.weights(about['shapes'][case])


@pytest.fixture
def folder(tmp_path):
    """Writes the folder of a case; keywords change its config, `tensors` its weights."""

    def write(case='llama', tensors=None, **changes):
        config = CASES[case][0] | changes
        return hf_cases.write(tmp_path, config, tensors or tensors_of(case))

    return write


def logits_of(imported, causal=None):
    causal = imported.causal if causal is None else causal
    head = heads.lm_head(imported.encoder, imported.tied)

    def logits(params, *batch):
        hidden = imported.encoder.apply(
            {'params': params['encoder']}, *batch, causal=causal
        )
        embedding_VD = params['encoder']['embedding']
        return head.apply({'params': params['lm_head']}, hidden, embedding_VD)

    return np.asarray(jax.jit(logits)(imported.params, *hf_cases.batch()))


def check_logits(imported, wanted, atol=1e-4):
    """Compares with the logits of each document, padded and packed."""
    found = hf_cases.by_document(logits_of(imported))
    for (padded, packed), logits in zip(found, wanted, strict=True):
        assert np.abs(logits).max() > 1
        assert_allclose(padded, logits, atol=atol, rtol=0)
        assert_allclose(packed, logits, atol=atol, rtol=0)


def their_logits(folder):
    """The logits of each document by transformers."""
    pytest.importorskip('torch')
    transformers = pytest.importorskip('transformers')
    family = json.loads((folder / 'config.json').read_text())['model_type']
    kind = getattr(transformers, FAMILIES[family].architecture)
    options = dict(attn_implementation='eager', dtype='float32')
    return make_hf.logits_of(kind.from_pretrained(folder, **options).eval())


def flat(tree):
    return {name: np.asarray(leaf) for name, leaf in leaves.by_name(tree).items()}


def exported(params, family):
    """The tensors in the format of the file, from our parameters."""
    leaves = flat(params)
    bound = weights.bindings(family, {path: x.shape for path, x in leaves.items()})
    return {name: weights.join(parts, leaves) for name, parts in bound.items()}


@pytest.mark.parametrize(
    'case',
    [pytest.param(case, marks=[pytest.mark.slow] * (case in VARIANTS)) for case in CASES],
)
def test_logits_equal_those_of_transformers_and_tensors_round_trip(folder, case):
    imported = load.load(folder(case))
    assert imported.causal == CASES[case][1]
    check_logits(imported, expected(case))
    back = exported(imported.params, FAMILIES[imported.record['family']])
    tensors = tensors_of(case)
    for name in set(tensors) - set(imported.record['left_out']):
        # A bias that is saved under two names is exported under one.
        there = name.replace('decoder.bias', 'bias') if name not in back else name
        assert_array_equal(back[there], tensors[name], err_msg=name)


@pytest.mark.parametrize('case', CASES)
def test_config_and_section_round_trip(case):
    config, _ = CASES[case]
    family = config['model_type']
    section = configs.to_section(config)
    tied = configs.complete(config)[1]['tie_word_embeddings']
    causal = FAMILIES[family].causal
    again = configs.to_config(section, family, tied, causal)
    assert configs.to_section(again) == section
    assert configs.to_config(configs.to_section(again), family, tied, causal) == again
    module = resolve.build('models', section, vocab_size=V)
    # Saved sections are JSON, which has no tuples.
    saved = json.loads(json.dumps(section))
    assert resolve.build('models', saved, vocab_size=V) == module


@pytest.mark.parametrize('case', ['llama_tied', 'bert', 'modernbert'])
def test_files_of_the_encoder_alone_lack_prefix_and_head(folder, case):
    family = FAMILIES[CASES[case][0]['model_type']]
    bare = {
        name.removeprefix(family.prefix): x
        for name, x in tensors_of(case).items()
        if name.startswith(family.prefix)
    }
    bare['pooler.dense.weight'] = np.zeros((32, 32), np.float32)
    whole = flat(load.load(folder(case)).params['encoder'])
    imported = load.load(folder(case, bare, architectures=['BertModel']))
    assert 'lm_head' not in imported.params
    assert imported.record['left_out'] == ['pooler.dense.weight']
    for path, leaf in flat(imported.params['encoder']).items():
        assert_array_equal(leaf, whole[path])


@pytest.mark.parametrize('dtype', [np.float16, ml_dtypes.bfloat16])
def test_half_precision_becomes_float32_masters(folder, dtype):
    stored = {name: x.astype(dtype) for name, x in tensors_of('llama').items()}
    imported = load.load(folder('llama', stored))
    embedding = imported.params['encoder']['embedding']
    assert embedding.dtype == jnp.float32
    assert_array_equal(embedding, np.float32(stored['model.embed_tokens.weight']))


def shard(folder, case='llama', parts=3, tensors=None):
    """Writes the weights of a case, or others, as shards with an index."""
    tensors = tensors or tensors_of(case)
    (folder / 'model.safetensors').unlink()
    index = {name: f'model-{i % parts}.safetensors' for i, name in enumerate(tensors)}
    for file in set(index.values()):
        mine = {name: tensors[name] for name in tensors if index[name] == file}
        save_file(mine, folder / file)
    (folder / files.INDEX).write_text(json.dumps({'weight_map': index}))
    return index


def test_a_single_file_takes_precedence_over_shards(folder):
    """As in transformers: shards of an older export may have been left behind."""
    path = folder('llama')
    wanted, new = flat(load.load(path).params), (path / files.SINGLE).read_bytes()
    shard(path, tensors={name: 2 * x for name, x in tensors_of('llama').items()})
    (path / files.SINGLE).write_bytes(new)
    for name, leaf in flat(load.load(path).params).items():
        assert_array_equal(leaf, wanted[name])


def test_shards_are_read_onto_the_mesh_part_by_part(folder, tmp_path, monkeypatch):
    whole = flat(load.load(folder('llama')).params)
    shard(folder('llama'))
    read, sizes = files.Tensors.read, []

    def counting(self, name, *index):
        found = read(self, name, *index)
        sizes.append(found.size)
        return found

    monkeypatch.setattr(files.Tensors, 'read', counting)
    mesh = sharding.make_mesh(data=1, fsdp=4)
    params = load.load(tmp_path, mesh=mesh).params
    for path, leaf in flat(params).items():
        assert_array_equal(leaf, whole[path])
    kernel = params['encoder']['layers']['ffn']['gate']['kernel']
    assert kernel.addressable_shards[0].data.shape == (4, 8, 48)
    # Each value is read once or, if replicated, once per device, and never more than one
    # device's shard of one tensor at a time.
    matrices = sum(x.size for path, x in whole.items() if path.endswith(('l', 'g')))
    rest = sum(x.size for x in whole.values()) - matrices
    assert sum(sizes) <= matrices + 4 * rest
    assert max(sizes) <= 48 * 32 / 4


@pytest.mark.parametrize(
    'change, words',
    [
        (lambda t: t.pop('lm_head.weight'), None),
        (lambda t: t.pop('model.norm.weight'), r'missing: model\.norm\.weight'),
        (
            lambda t: t.update({'model.extra': np.ones(2, np.float32)}),
            r'not in the model: model\.extra',
        ),
        (
            lambda t: t.update({'model.norm.weight': np.ones(3, np.float32)}),
            r'of another shape: model\.norm\.weight \(3,\) instead of \(32,\)',
        ),
    ],
)
def test_tensors_that_do_not_fit_are_listed(folder, change, words):
    tensors = tensors_of('llama')
    change(tensors)
    if words is None:
        assert 'lm_head' not in load.load(folder('llama', tensors)).params
        return
    with pytest.raises(ValueError, match=words):
        load.load(folder('llama', tensors))


def test_all_mismatched_tensors_are_in_one_error(folder):
    with pytest.raises(ValueError, match='missing: .*and 4 more.*of another shape: '):
        load.load(folder('llama', num_hidden_layers=5, intermediate_size=16))


@pytest.mark.parametrize(
    'case, window', [('mistral', (3, 2)), ('qwen3', (4, 3)), ('modernbert', (3, 3))]
)
def test_windows_are_converted_to_distances(case, window):
    """Bidirectional windows exclude the position itself; ModernBERT is never causal."""
    config = dict(use_sliding_window=True, max_window_layers=0, sliding_window=4)
    config |= CASES[case][0]
    found = [
        configs.to_section(config | changes)
        for changes in (dict(is_causal=False), {}, dict(is_causal=True))
    ]
    key = 'local_window' if case == 'modernbert' else 'window'
    assert [section[key] for section in found] == [*window, window[1]]


WINDOW = dict(sliding_window=2, use_sliding_window=True)


@pytest.mark.parametrize(
    'case, changes',
    [
        ('llama', WINDOW),
        ('eurobert', WINDOW | dict(is_decoder=True)),
        ('modernbert', dict(is_decoder=True)),
    ],
)
def test_keys_that_a_family_does_not_read_are_ignored(folder, case, changes):
    """As in transformers, whose classes for these ignore them."""
    imported = load.load(folder(case, **changes))
    assert imported.section.get('window') is None
    check_logits(imported, expected(case))


@pytest.mark.parametrize(
    'changes, words',
    [
        (dict(model_type='lama'), "Did you mean 'llama'"),
        (dict(hidden_act='relu'), "hidden_act='relu'"),
        (dict(rope_parameters=dict(rope_type='yarn')), "rope_type='yarn'"),
        (dict(rope_scaling=dict(type='yarn')), "rope_type='yarn'"),
        (dict(rope_parameters=dict(full_attention={})), 'has values for full_attention'),
        (dict(rope_scaling=dict(sliding_attention={})), 'values for sliding_attention'),
        (dict(quantization_config={}), 'has a quantization_config'),
        (dict(vocab_size=39), '40 tokens, but the embedding has 39 rows'),
        (dict(jepa_text=dict(shift=2)), 'jepa_text=.*must be .*or be left out'),
        (dict(jepa_text=3), 'jepa_text=3 must be'),
    ],
)
def test_unsupported_configs_raise(folder, changes, words):
    with pytest.raises(ValueError, match=words):
        load.load(folder('llama', **changes))


def written(name, text):
    return lambda path: (path / name).write_text(text)


def renamed(old, new):
    return lambda path: (path / old).rename(path / new)


def indexed(text):
    """An index instead of the single file."""

    def change(path):
        (path / files.SINGLE).unlink()
        (path / files.INDEX).write_text(text)

    return change


def halved(path):
    whole = (path / files.SINGLE).read_bytes()
    (path / files.SINGLE).write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    'change, words',
    [
        (indexed('{}'), 'has no "weight_map"'),
        (indexed('{"weight_map": []}'), 'has no "weight_map"'),
        (indexed('[]'), 'contains no JSON object, but a list'),
        (written('config.json', '[]'), r'config\.json contains no JSON object'),
        (
            written('config.json', 100_000 * '[' + 100_000 * ']'),
            'config.json is damaged: it is not valid JSON',
        ),
        (
            renamed('tokenizer.json', 'tokenizer.model'),
            'tokenizer.json.*Other formats: Auto',
        ),
        (
            renamed(files.SINGLE, 'pytorch_model.bin'),
            r'has pytorch_model\.bin\. .*run code',
        ),
        (renamed(files.SINGLE, 'other.safetensors'), r'has other\.safetensors\. '),
        (halved, r'model\.safetensors is damaged'),
    ],
)
def test_damaged_folders_raise_with_a_remedy(folder, change, words):
    path = folder('llama')
    change(path)
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        load.load(path)


@pytest.mark.parametrize(
    'case, written',
    draws.in_stages(
        ('llama', False), ('llama_tied', True), ('bert_untied', False), fast=2
    ),
)
def test_a_head_with_other_values_is_not_tied(folder, case, written):
    """Even if the config says so; a head saved with equal values is tied."""
    tensors = dict(tensors_of(case))
    if written:
        tensors['lm_head.weight'] = tensors['model.embed_tokens.weight']
    path = folder(case, tensors, tie_word_embeddings=True)
    imported = load.load(path)
    assert imported.tied == written == load.sketch(path)['tied']
    check_logits(imported, expected(case))


def test_tensors_are_compared_a_block_of_rows_at_a_time(folder, tmp_path):
    tensors = dict(tensors_of('llama'))
    tensors['lm_head.weight'] = tensors['model.embed_tokens.weight'].copy()
    found = files.Tensors(folder('llama', tensors))
    pair = 'lm_head.weight', 'model.embed_tokens.weight'
    assert found.equal(*pair, block=7)
    tensors['lm_head.weight'][-1, -1] += 1
    assert not files.Tensors(folder('llama', tensors)).equal(*pair, block=7)
    assert not found.equal('lm_head.weight', 'model.norm.weight')


def test_missing_shards_and_tensors_raise(folder):
    path = folder('llama')
    index = shard(path)
    name, file = next(iter(index.items()))
    (path / file).rename(path / 'elsewhere')
    with pytest.raises(FileNotFoundError, match=f'names {file}, missing'):
        load.load(path)
    save_file({'other': np.ones(2, np.float32)}, path / file)
    with pytest.raises(ValueError, match=f'lacks .*{name}'):
        load.load(path)


@pytest.mark.parametrize('error', ['LocalEntryNotFoundError', 'OfflineModeIsEnabled'])
def test_a_hub_that_cannot_be_reached_is_named(monkeypatch, error):
    hub = pytest.importorskip('huggingface_hub')
    asked = {}

    def refuse(name, **options):
        asked.update(options)
        refusal = getattr(hub.errors, error)
        raise refusal.__new__(refusal)

    monkeypatch.setattr(hub, 'snapshot_download', refuse)
    with pytest.raises(FileNotFoundError, match='cannot be reached'):
        files.folder_of('somebody/something', 'v2')
    assert asked['revision'] == 'v2'
    assert not any('bin' in p or p.endswith('.py') for p in asked['allow_patterns'])


def test_a_name_on_the_hub_is_read_from_its_cache(folder, tmp_path, monkeypatch):
    hub = pytest.importorskip('huggingface_hub')
    cached = tmp_path / 'snapshots' / 'c0ffee'
    cached.mkdir(parents=True)
    for file in folder('llama').glob('*.*'):
        file.rename(cached / file.name)
    monkeypatch.setattr(hub, 'snapshot_download', lambda *_, **__: str(cached))
    record = load.load('somebody/something', 'v2').record
    assert record['source'] == 'somebody/something'
    assert (record['revision'], record['commit']) == ('v2', 'c0ffee')


def test_an_outline_reads_as_the_model_does_and_needs_no_weights(folder, monkeypatch):
    hub = pytest.importorskip('huggingface_hub')
    path, asked = folder('bert'), {}
    whole = of_any.load(f'hf:{path}')
    for file in path.glob('*.safetensors'):
        file.unlink()
    one = of_any.outline(f'hf:{path}')
    for key in ('name', 'length', 'begin', 'end'):
        assert getattr(one, key) == getattr(whole, key)
    assert one.params == {} and one.network.encoder == whole.network.encoder
    assert one.tokenizer.fingerprint == whole.tokenizer.fingerprint

    def download(name, **options):
        asked.update(options)
        return str(path)

    monkeypatch.setattr(hub, 'snapshot_download', download)
    of_any.outline('hf:somebody/something')
    assert asked['allow_patterns'] == ['*.json']


def test_cached_models_are_checked_without_reading_weights(folder, monkeypatch):
    hub = pytest.importorskip('huggingface_hub')
    path = folder('bert')
    monkeypatch.setattr(hub, 'snapshot_download', lambda *_, **__: str(path))
    monkeypatch.setattr(files.Tensors, 'read', None)
    of_any.outline('hf:somebody/something', weights=True)
    (path / 'model.safetensors').unlink()
    with pytest.raises(FileNotFoundError, match=r'must contain model\.safetensors'):
        of_any.outline('hf:somebody/something', weights=True)


def test_a_revision_of_a_folder_raises(folder):
    with pytest.raises(ValueError, match='is a folder'):
        load.load(folder(), revision='main')
    with pytest.raises(ValueError, match='small is a folder'):
        load.load('small', revision='main')


@pytest.mark.peer
@pytest.mark.parametrize('case', ['mistral', 'qwen2', 'qwen3', 'smollm3'])
def test_bidirectional_windows_equal_those_of_transformers(case, folder):
    """Decoders with is_causal=false and a window, including short ones."""
    changes = dict(is_causal=False, use_sliding_window=True, sliding_window=2)
    path = folder(case, max_window_layers=1, **changes)
    imported = load.load(path)
    assert not imported.causal and 2 in np.atleast_1d(imported.section['window'])
    check_logits(imported, their_logits(path))


@pytest.mark.peer
@pytest.mark.parametrize('case', ['llama', 'bert_untied', 'modernbert_biases'])
def test_transformers_unties_heads_with_other_values_too(case, folder):
    path = folder(case, tie_word_embeddings=True)
    check_logits(load.load(path), their_logits(path))
