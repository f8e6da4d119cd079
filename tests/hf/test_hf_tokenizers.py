"""AutoTokenizer of transformers reads the tokenizers of exported folders as they are."""

import json

import draws
import foreign_tokenizers
import hf_cases
import pytest
from test_hf_export import imported

import jepa_text
from jepa_text.data.tokenizers import training
from jepa_text.hf import files, to_family, vocabulary
from jepa_text.hf.families import FAMILIES
from jepa_text.pretrained import export
from jepa_text.pretrained.model import Pretrained

TEXTS = (
    "The whale's white; it'll swim 1234567 miles.",
    'Der Wal schläft, “weiß” — und träumt!',
    'La ballena cruzó el océano, ¿verdad?',
    'Кит плывёт далеко на север.',
    '鲸鱼在海里游泳，天气很好。',
    '鯨は海を泳ぐ。',
    'الحوت يسبح في البحر.',
    'व्हेल समुद्र में तैरती है।',
    'วาฬว่ายน้ำในทะเล',
    ' two  spaces,\n\na tab\there, cafe\u0301 and 🐋🐋 ',
)
KINDS = ('bpe', 'wordpiece', 'unigram')


def tokenizer_of(kind):
    if kind == 'bpe':
        return training.train(TEXTS * 3, 700)
    return getattr(foreign_tokenizers, f'trained_{kind}')(TEXTS * 3)


def read_by_others(folder, tokenizer, family):
    """(tokenizer of transformers, model) of a folder with the tokenizer of a family."""
    transformers = pytest.importorskip('transformers')
    (folder / 'config.json').write_text(json.dumps({'model_type': family}))
    model = Pretrained(None, {}, tokenizer, 512)
    vocabulary.write(folder, model, family)
    return transformers.AutoTokenizer.from_pretrained(folder), model


@pytest.mark.peer
@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('family', to_family.WRITTEN)
def test_transformers_gives_the_same_ids(tmp_path, family, kind):
    tokenizer = tokenizer_of(kind)
    other, model = read_by_others(tmp_path, tokenizer, family)
    found = [other(text, split_special_tokens=True)['input_ids'] for text in TEXTS]
    assert found == [model.row(text).tolist() for text in TEXTS]
    masked = other('The white <mask>, a', add_special_tokens=False)['input_ids']
    assert masked == tokenizer.encode_masked('The white <mask>, a').tolist()


@pytest.mark.parametrize(
    'adapt, chosen', draws.in_stages((None, 'llama'), ({}, 'eurobert'), fast=1)
)
def test_qwen2_is_exported_as_another_family(tmp_path, adapt, chosen):
    """Biases that these need and Qwen2 lacks are 0, which is equivalent."""
    model, _ = imported(tmp_path, 'qwen2', adapt, use_sliding_window=False)
    with pytest.raises(ValueError, match="family='qwen2'. .*Available: bert, .* llama"):
        export.write(model, tmp_path / 'out', family='qwen2')
    found = export.write(model, tmp_path / 'out')
    assert found['family'] == chosen and found['difference'] < 1e-5
    tensors = files.Tensors(tmp_path / 'out')
    assert not tensors.read('model.layers.0.self_attn.o_proj.bias', slice(None)).any()
    assert tensors.read('model.layers.0.self_attn.q_proj.bias', slice(None)).any()


def test_declared_special_tokens_are_exported(tmp_path):
    """Of names that are not known, with padding that is also the end."""
    model, folder = imported(tmp_path, 'llama_tied')
    words = ['<NO>', '<START>', '<END>', *hf_cases.WORDS[3:]]
    hf_cases.write_tokenizer(folder, words)
    given = dict(bos_token='<START>', eos_token='<END>', pad_token='<END>')
    (folder / 'tokenizer_config.json').write_text(json.dumps(given))
    model = jepa_text.pretrained.load.load(f'hf:{folder}')
    export.write(model, tmp_path / 'out')
    again = jepa_text.pretrained.load.load(f'hf:{tmp_path / "out"}').tokenizer
    for found in (model.tokenizer, again):
        assert (found.pad_id, found.bos_id, found.eos_id, found.mask_id) == (2, 1, 2, 3)
    assert 'roles' not in (tmp_path / 'out' / 'tokenizer.json').read_text()


@pytest.mark.peer
def test_ids_that_transformers_changes_end_an_export(tmp_path, monkeypatch):
    transformers = pytest.importorskip('transformers')
    model, _ = imported(tmp_path, 'llama')
    export.write(model, tmp_path / 'out')
    assert vocabulary.difference(tmp_path / 'out', model) is None
    config = json.loads((tmp_path / 'out' / 'config.json').read_text())
    files.write_json(tmp_path / 'out' / 'config.json', config | {'model_type': 'qwen2'})
    difference = vocabulary.difference(tmp_path / 'out', model)
    monkeypatch.setattr(vocabulary, 'difference', lambda *_: difference)
    with pytest.raises(RuntimeError, match='AutoTokenizer of transformers .* encodes'):
        export.write(model, tmp_path / 'other')
    assert not (tmp_path / 'other').exists()
    auto = transformers.models.auto.tokenization_auto
    classes = {f: auto.TOKENIZER_MAPPING_NAMES.get(f) for f in FAMILIES}
    forced = auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS
    rebuilt = {f for f in forced & set(classes) if classes[f] != 'TokenizersBackend'}
    assert rebuilt == set(FAMILIES) - set(to_family.WRITTEN)
