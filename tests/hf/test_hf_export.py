"""Exported models are read back correctly by our import and by transformers."""

import dataclasses
import functools
import json
import math

import draws
import hf_cases
import jax
import numpy as np
import pytest
from hf_cases import CASES
from numpy.testing import assert_allclose, assert_array_equal
from test_hf_import import check_logits, tensors_of, their_logits

from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import roles
from jepa_text.hf import card, files, to_family, weights
from jepa_text.hf import load as hf_load
from jepa_text.hf.families import FAMILIES
from jepa_text.models import transformer
from jepa_text.models.network import Network
from jepa_text.pretrained import export, export_command, load
from jepa_text.pretrained import facts as known
from jepa_text.report import frequencies
from jepa_text.settings import resolve

# Qwen2 is exported as another family (test_hf_tokenizers.py).
EXPORTED = [case for case in CASES if case != 'qwen2']
# Those whose export is a fast test.
FEW = ('bert', 'eurobert', 'modernbert')
TEXT = 'The President of the United <mask> of America, and the <mask>.'


@functools.cache
def trained(objective='mlm', **changes):
    """A tiny model with parameters far from their initial values."""
    tokenizer = tokenizers.load(tokenizers.BUNDLED)
    section = {'name': 'transformer', 'preset': 'tiny', **changes}
    encoder = resolve.build('models', section, vocab_size=tokenizer.vocab_size)
    given = dict(tokenizer=tokenizer, length=32, steps=1)
    objective = resolve.build('objectives', {'name': objective, 'tied': True}, **given)
    network = Network(encoder, objective)
    params = draws.params(lambda: network.init(0))
    return load.Pretrained(network, params, tokenizer, 32, 'tiny')


def imported(tmp_path, case, adapt=None, **changes):
    """An imported model, from the folder tmp_path/case."""
    folder = tmp_path / case
    folder.mkdir()
    hf_cases.write(folder, CASES[case][0] | changes, tensors_of(case))
    return load.load(f'hf:{folder}', adapt=adapt), folder


def config_of(folder):
    return json.loads((folder / 'config.json').read_text())


@pytest.mark.parametrize(
    'case',
    [
        pytest.param(case, marks=[pytest.mark.slow] * (case not in FEW))
        for case in EXPORTED
    ],
)
def test_imported_models_are_exported_exactly(tmp_path, case):
    model, source = imported(tmp_path, case)
    found = export.write(model, tmp_path / 'out')
    assert found['family'] == CASES[case][0]['model_type']
    assert found['difference'] <= 1e-5
    before, after = files.Tensors(source), files.Tensors(tmp_path / 'out')
    family = FAMILIES[found['family']]
    # BERT's last bias has two names; untied models contain both.
    spelt = weights.canonical(family, before.names)
    bias = family.output.replace('weight', 'bias')
    twice = {bias} - {'lm_head.bias', 'decoder.bias'}
    is_tied = CASES[case][0].get('tie_word_embeddings')
    assert all((two in after.names) != is_tied for two in twice)
    kept = {n: old for n, old in spelt.items() if old not in model.record['left_out']}
    assert set(after.names) - twice == set(kept)
    for new, old in kept.items():
        assert after.shape(new) == before.shape(old)
        whole = [slice(0, n) for n in after.shape(new)]
        assert_array_equal(after.read(new, *whole), before.read(old, *whole))
    again = load.load(f'hf:{tmp_path / "out"}')
    assert (again.causal, again.begin, again.end) == (
        model.causal,
        model.begin,
        model.end,
    )
    assert again.network.encoder == model.network.encoder
    assert again.length == model.length


@pytest.mark.slow
@pytest.mark.parametrize('scan', [True, False])
def test_an_encoder_of_ours_becomes_eurobert(tmp_path, scan):
    model = trained(scan=True)
    if not scan:
        encoder = transformer.unstack_layers(model.params['encoder'])
        network = trained(scan=False).network
        params = {**model.params, 'encoder': encoder}
        model = dataclasses.replace(model, network=network, params=params)
    found = export.write(model, tmp_path / 'out')
    assert found['architecture'] == 'EuroBertForMaskedLM'
    assert found['parameters'] == sum(x.size for x in jax.tree.leaves(model.params))
    again = load.load(f'hf:{tmp_path / "out"}')
    assert not again.causal and again.pool == model.pool == 'mean'
    assert again.fill(TEXT, top=5) == model.fill(TEXT, top=5)
    texts = ['Call me Ishmael.', 'My fellow Americans:']
    assert_allclose(again.encode(texts), model.encode(texts), atol=1e-5)
    config = config_of(tmp_path / 'out')
    ids = [config[f'{r}_token_id'] for r in roles.ROLES]
    assert ids == [0, 1, 2, 3] and config['max_position_embeddings'] == 32


def test_shards_are_limited_in_size(tmp_path):
    model = trained()
    maximum = 4 * model.params['encoder']['embedding'].size
    export.write(model, tmp_path / 'one')
    export.write(model, tmp_path / 'some', shard_bytes=maximum)
    (whole,) = (tmp_path / 'one').glob('*.safetensors*')
    assert whole.name == 'model.safetensors'
    shards = sorted((tmp_path / 'some').glob('*.safetensors'))
    assert [p.name for p in shards] == [
        'model-00001-of-00002.safetensors',
        'model-00002-of-00002.safetensors',
    ]
    assert all(path.stat().st_size < maximum + 10_000 for path in shards)
    one, some = files.Tensors(tmp_path / 'one'), files.Tensors(tmp_path / 'some')
    assert one.names == some.names
    index = json.loads((tmp_path / 'some' / files.INDEX).read_text())
    total = sum(x.size for x in jax.tree.leaves(model.params)) * 4
    assert index['metadata']['total_size'] == total


@pytest.mark.parametrize(
    'case, message',
    [
        ('smollm3', 'cannot express .*rope_theta='),
        ('mistral', 'cannot express window=2'),
        ('llama', 'a bias in its LM head'),
    ],
)
def test_options_that_eurobert_cannot_express_raise(tmp_path, case, message):
    model, _ = imported(tmp_path, case, adapt={'window': 'two_sided'})
    with pytest.raises(ValueError, match=f'(?s){message}.*is_causal=false'):
        export.write(model, tmp_path / 'out')
    assert not (tmp_path / 'out').exists() and not list(tmp_path.glob('.out*'))
    found = export.write(model, tmp_path / 'out', family=CASES[case][0]['model_type'])
    assert (
        found['difference'] < 1e-5 and config_of(tmp_path / 'out')['is_causal'] is False
    )
    assert not load.load(f'hf:{tmp_path / "out"}').causal


@pytest.mark.parametrize('family', ['mistral', 'qwen3'])
def test_biases_that_transformers_ignores_are_not_exported(tmp_path, family):
    biases = dict(qkv_bias=True, ffn_bias=True, qk_norm=family == 'qwen3')
    model = dataclasses.replace(trained('clm', depth=1, **biases), causal=True)
    with pytest.raises(ValueError, match=f'{family} cannot express .*ffn_bias=True'):
        export.write(model, tmp_path / 'out', family=family)


def test_existing_folders_and_wrong_families_raise(tmp_path):
    (tmp_path / 'out').mkdir()
    (tmp_path / 'out' / 'mine').write_text('')
    with pytest.raises(FileExistsError, match='is not overwritten: give another --to'):
        export.write(trained(), tmp_path / 'out')
    with pytest.raises(ValueError, match='is an address; expected a local path'):
        export.write(trained(), 'memory://shelf/out')
    for family, message in (
        ('gpt2', "family='gpt2'. Available: bert, "),
        (
            'bert',
            r'A transformer is no bert.*: llama, mistral, qwen3, smollm3, eurobert\.',
        ),
    ):
        with pytest.raises(ValueError, match=message):
            export.write(trained(), tmp_path / 'new', family=family)
    left = dataclasses.replace(trained(), causal=True)
    with pytest.raises(ValueError, match='is causal, and eurobert bidirectional'):
        export.write(left, tmp_path / 'new', family='eurobert')
    assert sorted(path.name for path in tmp_path.iterdir()) == ['out']


def test_an_export_that_reads_back_differently_is_removed(tmp_path, monkeypatch):
    join = weights.join
    monkeypatch.setattr(weights, 'join', lambda *parts: join(*parts) * np.float32(1.01))
    with pytest.raises(RuntimeError, match='scores differ by'):
        export.write(trained(), tmp_path / 'out')
    assert not list(tmp_path.iterdir())


def test_the_template_adds_what_training_adds(tmp_path):
    export.write(trained(), tmp_path / 'out')
    backend = tokenizers.backend_library.Tokenizer.from_file(
        str(tmp_path / 'out' / 'tokenizer.json')
    )
    model = trained()
    assert backend.encode('Call me Ishmael.').ids == list(model.row('Call me Ishmael.'))
    a, b = (list(model.tokenizer.encode(text)) for text in ('a', 'b'))
    assert backend.encode('a', 'b').ids == [1, *a, 2, *b, 2]
    hidden = [1, *model.tokenizer.encode('Call'), 3, *model.tokenizer.encode(' me'), 2]
    assert backend.encode('Call <mask> me').ids == hidden
    names = files.read_json(tmp_path / 'out' / 'tokenizer_config.json')
    assert names['cls_token'] == names['bos_token'] == '<bos>'


FACTS = card.Facts(
    step=7,
    history=({'start': 0, 'stop': 7, 'objective': {'name': 'mlm', 'rate': 0.3}},),
    measured={'heldout/mlm_loss': 2.5},
    measured_at=6,
    init_from={'lines': ['from      runs/old'], 'family': None},
)
KNOWN = (
    *('license: mit', 'pipeline_tag: fill-mask', 'steps 0 to 7: name=mlm, rate=0.3'),
    *('| heldout/mlm_loss | 2.5000 |', 'at step 6. The weights are those of step 7.'),
    *('Needs transformers 5.3 or later.', 'from      runs/old', 'AutoModelForMaskedLM'),
)
BIDIRECTIONAL = (
    *('pipeline_tag: feature-extraction', 'cannot generate', 'license: unknown'),
    'Needs transformers 5.2 or later: earlier ones ignore `is_causal=false`',
    *('AutoModel.from_pretrained', "pooled by 'mean'"),
)
LEFT = dict(causal=True, shift=1)


def measured(loss):
    values = {'heldout/mlm_loss': loss, 'heldout/unigram_entropy': 6.4}
    sentences = tuple(frequencies.sentences(values, 'mlm'))
    return card.Facts(step=7, measured=values, measured_at=7, sentences=sentences)


@pytest.mark.parametrize(
    'changes, architecture, facts, there, absent',
    [
        ({}, 'EuroBertForMaskedLM', FACTS, KNOWN, ()),
        (dict(shift=1), 'BertForMaskedLM', None, ('at the position before it',), ()),
        ({}, 'Qwen3ForCausalLM', None, BIDIRECTIONAL, ('transformers 5.3',)),
        (
            LEFT,
            'Qwen3ForCausalLM',
            None,
            ('pipeline_tag: text-generation', "pooled by 'mean'"),
            ('MNTP', 'cannot generate', 'Needs transformers'),
        ),
        ({}, 'BertModel', measured(5.0), ('1.40 better',), ('**', 'The weights are')),
        ({}, 'BertModel', measured(math.nan), ('**Warning: ', 'learned nothing'), ()),
    ],
)
def test_the_card_states_what_is_known(changes, architecture, facts, there, absent):
    model = dataclasses.replace(trained(), **changes)
    license_name = 'mit' if facts else None
    text = card.text(model, architecture, 1234, facts, license_name)
    assert [part for part in there if part not in text] == []
    assert [part for part in absent if part in text] == []


def test_the_card_keeps_the_license_of_the_model_that_was_loaded(tmp_path, memory):
    """Also of one that is copied first."""
    export.write(trained(), tmp_path / 'old', license='mit')
    memory.put(str(tmp_path / 'old'), '/shelf/old', recursive=True)
    model = load.load('hf:memory://shelf/old')
    text = card.text(model, 'BertModel', 1)
    assert 'license: mit' in text and 'Started from memory://shelf/old (mit).' in text
    assert 'license: gpl' in card.text(model, 'BertModel', 1, None, 'gpl')


@pytest.mark.parametrize('prefix', ['', 'hf:'])
def test_the_card_contains_no_local_path(tmp_path, prefix):
    """Neither of its origin nor of itself."""
    old = tmp_path / 'the old one'
    config = {'init_from': {'path': f'{prefix}{old}'}}
    lines = [f'from      {old}, commit None', 'weights   new']
    record = {'lines': lines, 'family': None}
    (tmp_path / 'init_from.json').write_text(json.dumps(record))
    history = [{'start': 0, 'stop': 7, 'objective': {'name': 'mlm'}}]
    lost = {'step': 6, 'heldout/mlm_loss': 7.05, 'heldout/unigram_entropy': 6.4}
    (tmp_path / 'metrics.jsonl').write_text(json.dumps(lost) + '\n')
    model = dataclasses.replace(trained(), name=f'hf:{tmp_path}/this one')
    facts = known.of_run(tmp_path, 7, config, history, 'mlm')
    assert facts.name == f'{tmp_path.name}-7'
    text = card.text(model, 'BertModel', 1, dataclasses.replace(facts, name=''))
    assert str(tmp_path) not in text and str(tmp_path.parent) not in text
    for expected in (
        '# this one\n',
        'from      the old one, commit None',
        '0.65 worse than token frequencies alone (6.400)',
        '**Warning: this model has learned nothing',
        'at step 6. The weights are those of step 7.',
    ):
        assert expected in text
    assert text.index('**Warning') < text.index('## Measured')


@pytest.mark.parametrize('value', ['org/model', 'hf:org/model', 'runs/small', 'text'])
def test_names_that_are_not_local_paths_are_kept(value):
    assert card.public_name(value) == value
    for path in ('C:\\books\\one.txt', '../../one.txt'):
        assert card.public_name(path) == 'one.txt'


@pytest.mark.parametrize(
    'causal, shift', draws.in_stages((False, 0), (False, 1), (True, 1), (True, 0), fast=1)
)
def test_the_shift_of_the_head_is_restored(tmp_path, causal, shift):
    """MNTP predicts a token one position before it; a causal MLM at its position."""
    model = dataclasses.replace(trained(), causal=causal, shift=shift)
    found = export.write(model, tmp_path / 'out')
    usual = 'LlamaForCausalLM' if causal else 'EuroBertForMaskedLM'
    assert found['architecture'] == usual
    again = load.load(f'hf:{tmp_path / "out"}')
    assert (again.causal, again.shift) == (causal, shift)
    if causal and shift:  # as after CLM, of which it cannot be told apart
        with pytest.raises(ValueError, match='not trained to predict masked tokens'):
            again.fill(TEXT)
    else:
        assert again.fill(TEXT) == model.fill(TEXT)
    assert ('jepa_text' in config_of(tmp_path / 'out')) == (shift != int(causal))
    other = dataclasses.replace(model, shift=1 - shift)
    with pytest.raises(RuntimeError, match='shift of its head'):
        export.compared(other, tmp_path / 'out')


def test_a_decoder_of_sentence_transformers_keeps_its_pooling(tmp_path):
    model, _ = imported(tmp_path, 'llama')
    changes = dict(pool='last', normalize=True)
    model = dataclasses.replace(model, **changes)
    export.write(model, tmp_path / 'out')
    again = load.load(f'hf:{tmp_path / "out"}')
    assert again.causal and {k: getattr(again, k) for k in changes} == changes
    texts = ['w7 w9 w11', 'w20']
    assert_allclose(again.encode(texts), model.encode(texts), atol=1e-6)
    assert "pooled by 'last'" in (tmp_path / 'out' / 'README.md').read_text()
    for other in (dict(pool='mean'), dict(normalize=False)):
        with pytest.raises(RuntimeError, match='its pooling is'):
            export.compared(dataclasses.replace(model, **other), tmp_path / 'out')


def test_words_that_an_export_lacks_or_that_have_no_meaning_raise(tmp_path):
    with pytest.raises(ValueError, match='--to is missing'):
        export_command.run({}, 'runs/x')
    with pytest.raises(ValueError, match='step=12 has no meaning: leave it out'):
        export_command.run({'to': tmp_path / 'x', 'step': 12}, 'hf:x')


def test_export_to_an_address(tmp_path, memory):
    model, source = imported(tmp_path, 'llama')
    export_command.run({'to': 'memory://shelf/model'}, f'hf:{source}')
    memory.get('/shelf/model', str(tmp_path / 'back'), recursive=True)
    texts = ['w7 w9 w11', 'w20']
    again = load.load(f'hf:{tmp_path / "back"}')
    assert_array_equal(again.encode(texts), model.encode(texts))
    with pytest.raises(FileExistsError, match='memory://shelf/model already exists'):
        export_command.run({'to': 'memory://shelf/model'}, f'hf:{source}')


# Comparison with transformers and sentence-transformers.


def reading(folder, kind):
    transformers = pytest.importorskip('transformers')
    kind = getattr(transformers, kind)
    return kind.from_pretrained(folder, dtype='float32').eval()


def called(model, batch, **options):
    import torch

    with torch.no_grad():
        return model(**batch, **options)


@pytest.mark.peer
@pytest.mark.parametrize('case', EXPORTED)
def test_transformers_reads_every_family(tmp_path, case):
    """With the same results as for the folder that was imported."""
    model, source = imported(tmp_path, case)
    export.write(model, tmp_path / 'out')
    for found, wanted in zip(their_logits(tmp_path / 'out'), their_logits(source)):
        assert_allclose(found, wanted, atol=1e-5)


OWN = {
    'eurobert': dict(name='transformer', kv_heads=2),
    'llama': dict(name='transformer', kv_heads=2),
    'roberta': dict(name='bert', position_offset=1, positions=40),
    'xlm-roberta': dict(
        name='bert', position_offset=1, positions=40, act='relu', head_act='gelu', types=1
    ),
    'bert': dict(name='bert', position_offset=2, positions=40),
    'mistral': dict(name='transformer', kv_heads=2, window=5),
}


def own(family):
    """A model built with the options of another family."""
    sizes = dict(width=64, depth=2, heads=4, ffn_width=96)
    left = dict(causal=True, shift=1) if FAMILIES[family].causal else {}
    model = trained('clm' if left else 'mlm', **{**sizes, **OWN[family], 'preset': None})
    params = jax.tree.map(lambda x: x / 2 if x.ndim > 1 else x, model.params)
    return dataclasses.replace(model, params=params, **left)


def test_roberta_counts_positions_from_its_padding_id(tmp_path):
    """transformers detects padding by its id: here that of <bos>, in every text."""
    with pytest.raises(
        ValueError, match="position_offset=2, .* 1; the id is 0 .*family='bert'"
    ):
        export.write(own('bert'), tmp_path / 'out')
    assert not list(tmp_path.iterdir())


@pytest.mark.peer
@pytest.mark.parametrize('family', OWN)
def test_transformers_computes_the_same_scores(tmp_path, family):
    torch = pytest.importorskip('torch')
    model = own(family)
    found = export.write(model, tmp_path / 'out', family=family)
    assert config_of(tmp_path / 'out')['model_type'] == found['family'] == family
    other = reading(tmp_path / 'out', FAMILIES[family].architecture)
    batch = export._sample(model, model.ends())
    wanted = export._logits(model.network.encoder, model, to_family.tied(model), batch)
    tokens, real = torch.tensor(batch[0]).long(), torch.tensor(batch[1] > 0)
    found = called(other, {'input_ids': tokens, 'attention_mask': real.long()}).logits
    assert_allclose(found[real].numpy(), wanted, atol=1e-4)


@pytest.mark.peer
@pytest.mark.parametrize('window', ['none', 'two_sided'])
@pytest.mark.parametrize('case', ['qwen3', 'smollm3', 'mistral'])
def test_decoders_attend_bidirectionally_in_transformers_too(tmp_path, case, window):
    model, _ = imported(tmp_path, case, adapt={'window': window})
    export.write(model, tmp_path / 'out', family=case)
    check_logits(hf_load.load(tmp_path / 'out'), their_logits(tmp_path / 'out'))


@pytest.mark.peer
def test_the_pipeline_and_fill_agree_on_metaspace(tmp_path):
    """Text after a mask is not tokenized like the beginning of a text."""
    transformers = pytest.importorskip('transformers')
    pytest.importorskip('torch')
    path = tmp_path / 'eurobert'
    path.mkdir()
    tensors = tensors_of('eurobert')
    hf_cases.write(path, CASES['eurobert'][0], tensors)
    hf_cases.write_metaspace(path)
    model = load.load(f'hf:{path}')
    export.write(model, tmp_path / 'out')
    pipeline = transformers.pipeline('fill-mask', model=str(tmp_path / 'out'))
    text = 'ab <mask>, ba'
    wanted = [word for word, _ in model.fill(text, top=3)[0]]
    assert [one['token_str'] for one in pipeline(text, top_k=3)] == wanted


@pytest.mark.peer
def test_onnx_computes_the_same_scores_as_transformers(tmp_path):
    """The recipe of README.md, with other batch sizes than the traced one."""
    torch = pytest.importorskip('torch')
    pytest.importorskip('onnxscript')
    runtime = pytest.importorskip('onnxruntime')
    export.write(trained(), tmp_path / 'out')
    other = reading(tmp_path / 'out', 'AutoModelForMaskedLM')
    auto = pytest.importorskip('transformers').AutoTokenizer
    tokenizer = auto.from_pretrained(tmp_path / 'out')
    sizes = {0: torch.export.Dim('batch'), 1: torch.export.Dim('length')}
    names_of = ('input_ids', 'attention_mask')
    batch = tokenizer([TEXT, 'Call me <mask>.'], padding=True, return_tensors='pt')
    torch.onnx.export(
        other,
        kwargs={name: batch[name] for name in names_of},
        f=tmp_path / 'model.onnx',
        dynamo=True,
        input_names=names_of,
        output_names=('logits',),
        dynamic_shapes=dict.fromkeys(names_of, sizes),
    )
    session = runtime.InferenceSession(tmp_path / 'model.onnx')
    texts = ['Whales.', TEXT, 'My fellow Americans: three of another length.']
    batch = tokenizer(texts, padding=True, return_tensors='pt')
    (found,) = session.run(['logits'], {name: batch[name].numpy() for name in names_of})
    real = batch['attention_mask'].bool().numpy()
    wanted = called(other, batch).logits.numpy()[real]
    assert np.abs(found[real] - wanted).max() <= export.TOLERANCE * np.abs(wanted).max()


@pytest.mark.peer
def test_the_pipeline_fills_like_fill(tmp_path):
    transformers = pytest.importorskip('transformers')
    pytest.importorskip('torch')
    model = trained()
    export.write(model, tmp_path / 'out')
    pipeline = transformers.pipeline('fill-mask', model=str(tmp_path / 'out'))
    wanted = model.fill(TEXT, top=5)
    for found, best in zip(pipeline(TEXT, top_k=5), wanted, strict=True):
        assert [one['token_str'] for one in found] == [word for word, _ in best]
        assert_allclose([x['score'] for x in found], [p for _, p in best], rtol=1e-4)
