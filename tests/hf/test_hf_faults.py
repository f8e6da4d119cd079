"""Damaged, quantized and malicious folders raise clear errors, without reading files
outside the folder and without blocking."""

import dataclasses
import json
import os

import numpy as np
import pytest
from test_hf_adapt import sentences
from test_hf_export import trained
from test_hf_import import folder, tensors_of

from jepa_text.hf import files, load
from jepa_text.pretrained import export

folder = folder  # Fixtures are found by name.


@pytest.mark.parametrize(
    'file',
    [
        *('../x.safetensors', '/x.safetensors', 'a/b.safetensors', r'a\b.safetensors'),
        *('', '..', None, 3),
    ],
)
def test_index_entries_outside_the_folder_raise(folder, file):
    path = folder()
    (path / files.SINGLE).unlink()
    (path / files.INDEX).write_text(json.dumps({'weight_map': {'x': file}}))
    with pytest.raises(ValueError, match='places x in .*only the name .*never another'):
        load.load(path)


def test_a_normalizer_that_transformers_would_replace_raises(folder):
    path = folder('bert')
    tokenizer = json.loads((path / 'tokenizer.json').read_text())
    tokenizer['normalizer'] = dict(
        type='BertNormalizer',
        clean_text=True,
        handle_chinese_chars=True,
        strip_accents=None,
        lowercase=False,
    )
    (path / 'tokenizer.json').write_text(json.dumps(tokenizer))
    generic = dict(tokenizer_class='PreTrainedTokenizerFast', do_lower_case=True)
    for given, is_lower in (
        (dict(do_lower_case=False, strip_accents=None), False),
        (dict(do_lower_case=False, strip_accents=False), False),
        (dict(do_lower_case=True), True),
        (dict(tokenizer_class='BertTokenizer'), True),
        (generic, False),
    ):
        (path / 'tokenizer_config.json').write_text(json.dumps(given))
        if is_lower:
            with pytest.raises(
                ValueError, match='do_lower_case=True, but tokenizer.json'
            ):
                load.load(path)
        else:
            load.load(path)


def test_hub_cache_links_are_followed(folder, tmp_path):
    path = folder('llama')
    wanted = load.load(path).params['encoder']['embedding']
    (path / 'blobs').mkdir()
    for number, file in enumerate(sorted(path.glob('*.*'))):
        file.rename(path / 'blobs' / str(number))
        file.symlink_to(os.path.join('blobs', str(number)))
    np.testing.assert_array_equal(load.load(path).params['encoder']['embedding'], wanted)
    (path / 'blobs' / '0').unlink()  # config.json
    with pytest.raises(ValueError, match=r'config\.json is a link that leads nowhere'):
        load.load(path)


@pytest.mark.parametrize(
    'name', ['modules.json', 'sentence_bert_config.json', files.SINGLE, files.INDEX]
)
def test_a_broken_link_is_not_a_file_that_is_absent(folder, name):
    path = sentences(folder('bert'), pooling_mode_mean_tokens=True)
    (path / name).unlink(missing_ok=True)
    if name == files.INDEX:
        (path / files.SINGLE).unlink()
    (path / name).symlink_to('nowhere')
    with pytest.raises(ValueError, match=f'{name} is a link that leads nowhere'):
        load.load(path)


@pytest.mark.parametrize('dtype', ['int8', 'uint8', 'int32'])
def test_quantized_weights_raise(folder, dtype):
    """Even without a quantization config: the values would lack their scales."""
    name = 'model.layers.1.mlp.up_proj.weight'
    tensors = tensors_of('llama')
    tensors[name] = tensors[name].astype(dtype)
    message = rf'model\.safetensors: {name} is stored as [UI]\d+, so it is quantized'
    with pytest.raises(ValueError, match=message):
        load.load(folder('llama', tensors))


def test_a_quantization_config_of_null_is_none(folder):
    load.load(folder('llama', quantization_config=None))


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_raise(folder, value):
    tensors = dict(tensors_of('bert'))
    name = 'bert.encoder.layer.2.output.dense.bias'
    tensors[name] = tensors[name].copy()
    tensors[name][5] = value
    with pytest.raises(
        ValueError, match=rf'model\.safetensors: {name} contains NaN, inf'
    ):
        load.load(folder('bert', tensors))


def test_a_diverged_model_is_not_exported(tmp_path):
    model = trained()
    spoilt = model.params['encoder']['embedding'].copy()
    spoilt[3, 4] = np.nan
    encoder = {**model.params['encoder'], 'embedding': spoilt}
    params = {**model.params, 'encoder': encoder}
    with pytest.raises(
        ValueError, match='encoder/embedding of tiny contains NaN.*diverge'
    ):
        export.write(dataclasses.replace(model, params=params), tmp_path / 'out')
    assert not list(tmp_path.iterdir())


def test_ignored_tensors_may_have_any_type(folder):
    """Such as the table of positions in older BERT files."""
    tensors = dict(tensors_of('bert'))
    tensors['bert.embeddings.position_ids'] = np.arange(64)[None]
    load.load(folder('bert', tensors))
