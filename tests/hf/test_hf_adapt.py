"""Adapting decoders with each option, and pooling of sentence-transformers models."""

import dataclasses
import json

import hf_cases
import jax
import numpy as np
import pytest
from hf_cases import CASES, WORDS, V
from numpy.testing import assert_allclose, assert_array_equal
from references import make_hf
from test_hf_import import check_logits, expected, flat, folder, logits_of, tensors_of

from jepa_text.data import tokenizers
from jepa_text.hf import adapt, load, sentence
from jepa_text.pretrained import load as loading

folder = folder  # Fixtures are found by name.


def without(folder, *words):
    """A folder whose tokenizer has other tokens in the place of some."""
    kept = [word for word in WORDS if word not in words]
    hf_cases.write_tokenizer(folder, kept)
    return folder


def test_the_same_weights_with_bidirectional_attention_are_eurobert(folder):
    path = folder('eurobert', model_type='llama', rms_norm_eps=1e-5)
    imported = load.load(path, adapt={})
    assert not imported.causal
    check_logits(imported, expected('eurobert'))
    assert imported.record['advice'] == 'mntp'
    assert load.load(path).causal


def test_a_new_mask_is_the_mean_of_the_tokens(folder):
    path = without(folder('llama'), '<mask>')
    before = load.load(path)
    assert before.tokenizer.mask_id is None
    imported = load.load(path, adapt={})
    assert imported.record['mask'] == {'token': '<mask>', 'how': 'new', 'id': V - 1}
    assert imported.record['rows'] == {'file': V, 'now': V, 'tokens': V}
    embedding_VD = imported.params['encoder']['embedding']
    old_VD = np.asarray(before.params['encoder']['embedding'])
    # One row had no token: the mask uses it, and its values are replaced.
    assert_array_equal(embedding_VD[: V - 1], old_VD[: V - 1])
    mean_D = old_VD[: V - 1].mean(0)
    assert_allclose(embedding_VD[V - 1], mean_D, atol=1e-6)
    head_DV = imported.params['lm_head']['output']['kernel']
    old_DV = np.asarray(before.params['lm_head']['output']['kernel'])
    assert_allclose(head_DV[:, -1], old_DV[:, : V - 1].mean(1), atol=1e-6)
    # A saved tokenizer keeps its mask.
    content = json.loads(imported.tokenizer.content)
    assert tokenizers.parse(content, 'here').mask_id == V - 1


def test_a_reserved_token_becomes_the_mask_and_keeps_its_row(folder):
    path = folder('llama')
    words = [w if w != '<mask>' else '<|reserved_special_token_0|>' for w in WORDS]
    hf_cases.write_tokenizer(path, words)
    imported = load.load(path, adapt={})
    assert imported.record['mask']['how'] == 'reserved'
    assert imported.tokenizer.mask_id == 3
    assert imported.tokenizer.backend.id_to_token(3) == '<mask>'
    before = flat(load.load(path).params)
    for name, leaf in flat(imported.params).items():
        assert_array_equal(leaf, before[name])
    assert imported.tokenizer.fingerprint != load.load(path).tokenizer.fingerprint


def test_a_reserved_token_with_a_role_stays_as_it_is(folder):
    path = folder('llama')
    names = {
        f'<|reserved_special_token_{n}|>': w for n, w in enumerate(('<pad>', '<mask>'))
    }
    words = [dict(zip(names.values(), names)).get(word, word) for word in WORDS]
    hf_cases.write_tokenizer(path, words)
    (path / 'tokenizer_config.json').write_text(json.dumps({'pad_token': [*names][0]}))
    imported = load.load(path, adapt={})
    tokenizer = imported.tokenizer
    assert tokenizer.backend.id_to_token(tokenizer.pad_id) == [*names][0]
    assert tokenizer.backend.id_to_token(tokenizer.mask_id) == '<mask>'
    assert tokenizer.mask_id == WORDS.index('<mask>')


def test_a_new_head_is_initialized(folder):
    imported = load.load(folder('llama'), adapt=dict(head='new'))
    assert not imported.tied
    assert imported.record['left_out'] == ['lm_head.weight']
    kernel_DV = imported.params['lm_head']['output']['kernel']
    assert 0.01 < np.std(kernel_DV) < 0.03
    assert imported.record['advice'] == 'mlm'


def test_an_encoder_without_head_can_get_a_new_one(folder):
    tensors = {n: x for n, x in tensors_of('bert').items() if n.startswith('bert.')}
    path = folder('bert', tensors, architectures=['BertModel'])
    imported = load.load(path, adapt=dict(head='new'))
    assert set(imported.params['lm_head']) == {'dense', 'norm', 'output', 'bias'}
    assert np.isfinite(logits_of(imported)).all()


def test_a_window_needs_a_choice(folder):
    path = folder('mistral')
    with pytest.raises(ValueError, match=r"two_sided.*'none'"):
        load.load(path, adapt={})
    assert load.load(path, adapt=dict(window='two_sided')).section['window'] == 2
    assert load.load(path, adapt=dict(window='none')).section['window'] is None


@pytest.mark.parametrize(
    'section, words',
    [
        (dict(haed='new'), "Did you mean 'head'"),
        (dict(head='tied'), "head='tied'"),
        (dict(window='left'), "window='left'"),
    ],
)
def test_invalid_choices_raise(folder, section, words):
    with pytest.raises(ValueError, match=words):
        load.load(folder(), adapt=section)


def test_decisions_are_json_and_readable_lines(folder):
    record = load.load(without(folder('mistral'), '<mask>'), adapt=dict(window='none'))
    record = json.loads(json.dumps(record.record))
    text = '\n'.join(adapt.lines(record))
    assert 'mask      <mask> = 39, new' in text
    assert 'attends   bidirectional, window None' in text
    assert 'advice: mntp' in text
    _, *rest = adapt.lines(record)  # the first line has a path
    assert all(len(line) < 100 for line in rest)


def sentences(folder, normalize=True, **pooling):
    """Adds the files of sentence-transformers to a folder."""
    modules = ['Transformer', 'Pooling'] + ['Normalize'] * normalize
    listed = [
        dict(idx=i, path=f'{i}_{kind}' if i else '', type=f'sentence_transformers.{kind}')
        for i, kind in enumerate(modules)
    ]
    (folder / 'modules.json').write_text(json.dumps(listed))
    (folder / '1_Pooling').mkdir(exist_ok=True)
    (folder / '1_Pooling' / 'config.json').write_text(json.dumps(pooling))
    (folder / 'sentence_bert_config.json').write_text('{"max_seq_length": 8}')
    return folder


def test_sentence_models_pool_all_tokens_and_scale(folder):
    path = sentences(folder('bert'), pooling_mode_mean_tokens=True)
    model = loading.load(f'hf:{path}')
    assert model.length == 8 and model.pool == 'mean' and not model.causal
    text = ' '.join(f'w{i}' for i in range(5, 25))
    ids = np.array([[*model.begin, *model.tokenizer.encode(text)[:8], *model.end]])[:, :8]
    one = np.ones_like(ids)
    hidden = jax.jit(lambda p, *x: model.network.apply('encoder', p, *x, causal=False))(
        model.params, ids, one, np.arange(8)[None]
    )
    wanted_D = np.asarray(hidden[0]).mean(0)
    wanted_D /= np.linalg.norm(wanted_D)
    assert_allclose(model.encode([text])[0], wanted_D, atol=1e-5)
    assert_allclose(model.encode([text], pool='mean')[0], wanted_D, atol=1e-5)
    # With another pooling, vectors are not normalized.
    assert not np.allclose(np.linalg.norm(model.encode([text], pool='max')), 1)


@pytest.mark.parametrize(
    'section, pool',
    [
        (dict(pooling_mode_cls_token=True, pooling_mode_mean_tokens=False), 'cls'),
        (dict(pooling_mode_lasttoken=True), 'last'),
        (dict(pooling_mode_weightedmean_tokens=True), 'position'),
        (dict(pooling_mode='weightedmean'), 'position'),
        (dict(pooling_mode='mean', include_prompt=True), 'mean'),
    ],
)
def test_poolings_of_old_and_new_files(tmp_path, section, pool):
    found = sentence.read(sentences(tmp_path, normalize=False, **section))
    assert found == sentence.Pooling(pool, False, 8)
    transformer = json.loads((tmp_path / 'modules.json').read_text())[:1]
    (tmp_path / 'modules.json').write_text(json.dumps(transformer))
    assert sentence.read(tmp_path) is None  # as of a CrossEncoder


@pytest.mark.parametrize('name', ['roberta', 'xlm-roberta'])
def test_settings_are_found_under_older_names(tmp_path, name):
    path = sentences(tmp_path, pooling_mode_mean_tokens=True)
    file = path / f'sentence_{name}_config.json'
    file.write_text('{"max_seq_length": 9.0, "do_lower_case": false}')
    assert sentence.read(path).length == 8
    (path / 'sentence_bert_config.json').unlink()
    assert repr(sentence.read(path).length) == '9'
    for content, words in (
        ('{"max_seq_length": 0}', f'{file.name}: max_seq_length'),
        ('{"do_lower_case": true}', 'lowercases texts'),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=words):
            sentence.read(path)


PROMPTS = 'config_sentence_transformers.json'
FIND = dict(prompts=dict(query='Find: '), default_prompt_name='query')
UNREADABLE = [
    ('1_Pooling/config.json', dict(pooling_mode_mean_sqrt_len_tokens=True), 'mean_sqrt_'),
    ('modules.json', [dict(path='2_Dense', type='x.Dense')], 'has the modules Dense'),
    *(
        ('modules.json', [dict(path=path, type='x.Pooling')], 'the name of a folder')
        for path in ('../1_Pooling', '/1_Pooling', 'a/b', None, 7)
    ),
    ('sentence_bert_config.json', dict(do_lower_case=True), 'lowercases.*switch it off'),
    (PROMPTS, FIND, "a prompt before texts .default_prompt_name='query'.*switch it off"),
    (PROMPTS, dict(truncate_dim=8), 'shortens vectors .truncate_dim=8.*do it yourself'),
    ('tokenizer_config.json', dict(truncation_side='left'), 'cuts the beginnings'),
    (PROMPTS, FIND | dict(prompts=[1]), 'a prompt before texts'),
    (PROMPTS, FIND | dict(default_prompt_name={}), 'a prompt before texts'),
]


@pytest.mark.parametrize('file, content, words', UNREADABLE)
def test_sentence_models_that_cannot_be_read_raise(tmp_path, file, content, words):
    sentences(tmp_path, pooling_mode_mean_tokens=True)
    (tmp_path / PROMPTS).write_text(json.dumps(FIND | dict(prompts=dict(query=''))))
    assert sentence.read(tmp_path).length == 8
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=words):
        sentence.read(tmp_path)


def test_masked_tokens_are_encoded_as_the_exported_tokenizer_does(tmp_path):
    hf_cases.write_metaspace(tmp_path)
    tokenizer = tokenizers.load(tmp_path / 'tokenizer.json')
    name = tokenizer.backend.id_to_token

    def read(text):
        return ' '.join(name(int(i)) for i in tokenizer.encode_masked(text))

    assert read('ab <mask>, ba') == '▁ a b <mask> , ▁ b a'
    assert read('<mask> a<mask>') == '<mask> ▁ a <mask>'
    # Only the mask is parsed as a token in a text.
    assert '<eos>' not in read('a <eos> <mask>')
    # A file with another name for the mask, which is not in its list.
    hf_cases.write_tokenizer(tmp_path, [w.replace('<mask>', '[MASK]') for w in WORDS])
    content = json.loads((tmp_path / 'tokenizer.json').read_text())
    content['added_tokens'] = content['added_tokens'][:-1]
    tokenizer = tokenizers.parse(content, 'here')
    assert tokenizer.encode_masked('w7 <mask> w9').tolist() == [7, 3, 9]


def test_a_loaded_decoder_is_causal_with_shift_one(folder):
    path = folder('llama')
    text = 'w7 w9 <mask> w11'
    plain = loading.load(f'hf:{path}')
    assert plain.causal and plain.begin == () and plain.end == ()
    plain = dataclasses.replace(plain, begin=(1,))
    changed = [plain.encode([t], pool='cls') for t in ('w7 w9 w11', 'w7 w9 w30')]
    assert_array_equal(*changed)
    model = loading.load(f'hf:{path}', adapt={})
    changed = [model.encode([t], pool='cls') for t in ('w7 w9 w11', 'w7 w9 w30')]
    assert np.abs(changed[0] - changed[1]).max() > 1e-3
    assert (model.begin, model.end, model.shift) == ((1,), (2,), 1)
    ids = np.array([[1, *model.tokenizer.encode('w7 w9'), 3, 11, 2]])
    one = np.ones_like(ids)

    @jax.jit
    def logits(params, *batch):
        hidden = model.network.apply('encoder', params, *batch, causal=False)
        embedding_VD = params['encoder']['embedding']
        return model.network.apply('lm_head', params, hidden, embedding_VD)

    logits_BLV = logits(model.params, ids, one, np.arange(ids.shape[1])[None])
    best = int(np.argmax(logits_BLV[0, 2]))
    assert model.fill(text, top=1)[0][0][0] == model.tokenizer.decode([best])


def test_the_template_of_a_tokenizer_without_latin_letters_is_found():
    library = tokenizers.backend_library
    words = {word: i for i, word in enumerate([*WORDS[:4], 'м', 'о'])}
    backend = library.Tokenizer(library.models.BPE(words, []))
    backend.add_special_tokens(WORDS[:4])
    backend.post_processor = library.processors.TemplateProcessing(
        single='<bos> $A <eos>', special_tokens=[('<bos>', 1), ('<eos>', 2)]
    )
    found = tokenizers.parse(json.loads(backend.to_str()), 'here')
    assert load.ends(found) == ((1,), (2,))


def test_fill_raises_without_mask_token_or_head(folder):
    path = without(folder('llama'), '<mask>')
    with pytest.raises(ValueError, match='no mask token'):
        loading.load(f'hf:{path}').fill('w7 <mask>')
    tensors = {n: x for n, x in tensors_of('bert').items() if n.startswith('bert.')}
    bare = folder('bert', tensors, architectures=['BertModel'])
    with pytest.raises(ValueError, match='has no LM head'):
        loading.load(f'hf:{bare}').fill('w7 <mask>')


def test_hf_options_raise_for_a_workdir(tmp_path):
    with pytest.raises(ValueError, match='revision: only for Hugging Face models'):
        loading.load(tmp_path, revision='main')


@pytest.mark.peer
@pytest.mark.parametrize('case', CASES)
def test_logits_equal_those_of_transformers(case, tmp_path):
    pytest.importorskip('torch')
    pytest.importorskip('transformers')
    config, is_decoder = CASES[case]
    model, _ = make_hf.model_of(config, is_decoder)
    model.save_pretrained(tmp_path)
    hf_cases.write_tokenizer(tmp_path)
    check_logits(load.load(tmp_path), make_hf.logits_of(model))
