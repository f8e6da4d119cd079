"""Exported models are read back correctly by our import and by transformers."""

import dataclasses
import functools
import json
import math

import fsspec
import hf_cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hf_cases import CASES
from numpy.testing import assert_allclose, assert_array_equal
from test_hf_import import tensors_of

from jepa_text import main
from jepa_text.config import resolve
from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import roles
from jepa_text.hf import (
    card,
    files,
    layout,
    names,
    shards,
    task_head,
    to_family,
    vocabulary,
)
from jepa_text.models import transformer
from jepa_text.models.network import Network
from jepa_text.pretrained import export, load
from jepa_text.report import frequencies

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
    params = jax.jit(functools.partial(network.init, 0))()
    params = jax.tree.map(lambda x: 8 * x if x.ndim > 1 else x, params)
    return load.Pretrained(network, params, tokenizer, 32, 'tiny')


def imported(tmp_path, case, adapt=None, **changes):
    """An imported model, from the folder tmp_path/case."""
    folder = tmp_path / case
    folder.mkdir()
    hf_cases.write(folder, CASES[case][0] | changes, tensors_of(case))
    return load.load(f'hf:{folder}', adapt=adapt), folder


def config_of(folder):
    return json.loads((folder / 'config.json').read_text())


@pytest.mark.parametrize('case', CASES)
def test_imported_models_are_exported_exactly(tmp_path, case):
    model, source = imported(tmp_path, case)
    found = export.write(model, tmp_path / 'out')
    assert found['family'] == CASES[case][0]['model_type']
    assert found['difference'] <= 1e-5
    before, after = files.Tensors(source), files.Tensors(tmp_path / 'out')
    family = names.FAMILIES[found['family']]
    # BERT's last bias has two names; untied models contain both.
    spelt = layout.canonical(family, before.names)
    twice = {two for _, two in family.duplicates}
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


def test_every_real_position_is_compared_the_first_one_too():
    model = trained()
    batch = export._sample(model, model.ends())
    found = export._logits(model.network.encoder, model, True, batch)
    assert len(found) == (batch[1] > 0).sum() != (batch[2] > 0).sum()


def test_causal_models_become_llama(tmp_path):
    model = dataclasses.replace(trained('clm'), causal=True)
    found = export.write(model, tmp_path / 'out')
    assert found['architecture'] == 'LlamaForCausalLM'
    assert load.load(f'hf:{tmp_path / "out"}').causal


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


def test_a_decoder_that_became_an_encoder(tmp_path):
    """Biases that EuroBERT needs and Qwen2 lacks are 0, which is equivalent."""
    model, _ = imported(tmp_path, 'qwen2', adapt={}, use_sliding_window=False)
    found = export.write(model, tmp_path / 'out')
    assert found['architecture'] == 'EuroBertForMaskedLM'
    tensors = files.Tensors(tmp_path / 'out')
    assert not tensors.read('model.layers.0.self_attn.o_proj.bias', slice(None)).any()
    assert tensors.read('model.layers.0.self_attn.q_proj.bias', slice(None)).any()


@pytest.mark.parametrize(
    'case, message',
    [
        ('qwen3', 'cannot express qk_norm=True'),
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


@pytest.mark.parametrize('family', ['mistral', 'qwen2', 'qwen3'])
def test_biases_that_transformers_ignores_are_not_exported(tmp_path, family):
    sizes = dict(depth=1)
    biases = dict(qkv_bias=True, ffn_bias=True, qk_norm=family == 'qwen3')
    model = dataclasses.replace(trained('clm', **sizes, **biases), causal=True)
    content = model.tokenizer.content.replace('<mask>', '<|endoftext|>')
    tokenizer = tokenizers.parse(hf_cases.as_qwen(json.loads(content)), '', ('mask',))
    model = dataclasses.replace(model, tokenizer=tokenizer)
    with pytest.raises(ValueError, match=f'{family} cannot express .*ffn_bias=True'):
        export.write(model, tmp_path / 'out', family=family)


def test_existing_folders_and_wrong_families_raise(tmp_path):
    (tmp_path / 'out').mkdir()
    (tmp_path / 'out' / 'mine').write_text('')
    with pytest.raises(FileExistsError, match='is not overwritten: give another --to'):
        export.write(trained(), tmp_path / 'out')
    for family, message in (
        ('gpt2', "family='gpt2'. Available: bert, "),
        ('bert', r'A transformer is no bert.* smollm3, eurobert\.'),
    ):
        with pytest.raises(ValueError, match=message):
            export.write(trained(), tmp_path / 'new', family=family)
    left = dataclasses.replace(trained(), causal=True)
    with pytest.raises(ValueError, match='is causal, and eurobert bidirectional'):
        export.write(left, tmp_path / 'new', family='eurobert')
    pooled = dataclasses.replace(trained(), pool='mean-specials')
    with pytest.raises(ValueError, match='not supported by sentence-transformers'):
        export.write(pooled, tmp_path / 'new')
    assert sorted(path.name for path in tmp_path.iterdir()) == ['out']


def test_an_export_that_reads_back_differently_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(shards.layout, 'join', lambda parts, leaves: _first(leaves))
    with pytest.raises((RuntimeError, ValueError)):
        export.write(trained(), tmp_path / 'out')
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    export.write(trained(), tmp_path / 'out')
    other = dataclasses.replace(
        trained(), params=jax.tree.map(lambda x: 1.01 * x, trained().params)
    )
    with pytest.raises(RuntimeError, match='scores differ by'):
        export.compared(other, tmp_path / 'out')


def _first(leaves):
    leaf = next(iter(leaves.values()))
    return np.ascontiguousarray(leaf.T)


def task(kind, width=64):
    rng = np.random.default_rng(0)
    sizes = {'dense': width} if kind == 'sequence' else {}
    parts = {
        name: {
            'kernel': rng.standard_normal((width, n)).astype(np.float32) / 8,
            'bias': rng.standard_normal(n).astype(np.float32),
        }
        for name, n in (sizes | {'classifier': 3}).items()
    }
    return task_head.TaskHead(kind, parts, ('red', 'green', 'blue'), 'mean')


@pytest.mark.parametrize('kind', ['sequence', 'token'])
def test_task_heads_replace_the_lm_head(tmp_path, kind):
    head = task(kind)
    found = export.write(trained(), tmp_path / 'out', task=head)
    wanted = task_head.CLASSES['eurobert'][kind].architecture
    assert found['architecture'] == wanted
    tensors = files.Tensors(tmp_path / 'out')
    kernel = tensors.read('classifier.weight', slice(None), slice(None))
    assert_array_equal(kernel.T, head.params['classifier']['kernel'])
    assert not [name for name in tensors.names if name.startswith('lm_head')]
    assert config_of(tmp_path / 'out')['id2label'] == {
        '0': 'red',
        '1': 'green',
        '2': 'blue',
    }


def test_unsupported_task_heads_raise(tmp_path):
    head = task('sequence')
    with pytest.raises(ValueError, match="'word'. Available: question, sequence"):
        task_head.TaskHead('word', head.params, head.labels)
    with pytest.raises(ValueError, match='3 classes, but labels'):
        task_head.TaskHead('sequence', head.params, ('one',))
    with pytest.raises(ValueError, match="pool='max'.*pool='mean' or 'cls' or 'late'"):
        other = task_head.TaskHead('sequence', head.params, head.labels, 'max')
        export.write(trained(), tmp_path / 'out', task=other)
    with pytest.raises(ValueError, match='no class of eurobert .* have it: bert, rob'):
        other = dataclasses.replace(task('token'), kind='question')
        export.write(trained(), tmp_path / 'out', task=other)
    assert not (tmp_path / 'out').exists()


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
    names = vocabulary.special_tokens(model.tokenizer)
    assert names['cls_token'] == names['bos_token'] == '<bos>'


def test_the_card_contains_known_facts():
    facts = card.Facts(
        step=7,
        history=({'start': 0, 'stop': 7, 'objective': {'name': 'mlm', 'rate': 0.3}},),
        measured={'heldout/mlm_loss': 2.5},
        measured_at=6,
        init_from={'lines': ['from      runs/old'], 'family': None},
    )
    text = card.text(trained(), 'EuroBertForMaskedLM', 1234, facts, 'mit')
    for part in (
        'license: mit',
        'pipeline_tag: fill-mask',
        'steps 0 to 7: name=mlm, rate=0.3',
        '| heldout/mlm_loss | 2.5000 |',
        'at step 6. The weights are those of step 7.',
        'Needs transformers 5.3 or later.',
        'from      runs/old',
        'AutoModelForMaskedLM',
    ):
        assert part in text
    at_once = dataclasses.replace(facts, measured_at=7)
    assert 'The weights are' not in card.text(trained(), 'BertModel', 1, at_once)
    shifted = dataclasses.replace(trained(), shift=1)
    text = card.text(shifted, 'EuroBertForMaskedLM', 1234)
    assert 'license: unknown' in text and 'at the position before it' in text


@pytest.mark.parametrize('prefix', ['', 'hf:'])
def test_the_card_contains_no_local_path(tmp_path, monkeypatch, prefix):
    """Neither of its origin nor of itself."""
    old = tmp_path / 'the old one'
    config = {
        'data': {'folder': str(tmp_path)},
        'init_from': {'path': f'{prefix}{old}'},
        'phases': [{}],
    }
    lines = [f'from      {old}, commit None', 'weights   new']
    for name, content in (
        ('config.json', config),
        ('init_from.json', {'lines': lines, 'family': None}),
    ):
        (tmp_path / name).write_text(json.dumps(content))
    history = [{'start': 0, 'stop': 7, 'objective': {'name': 'mlm'}}]
    monkeypatch.setattr(export.restore, 'meta', lambda *_: {'history': history})
    lost = {'step': 6, 'heldout/mlm_loss': 7.05, 'heldout/unigram_entropy': 6.4}
    (tmp_path / 'metrics.jsonl').write_text(json.dumps(lost) + '\n')
    model = dataclasses.replace(trained(), name=f'hf:{tmp_path}/this one')
    text = card.text(model, 'BertModel', 1, export.facts_of(model, tmp_path, 7))
    assert str(tmp_path) not in text and str(tmp_path.parent) not in text
    for expected in (
        '# this one\n',
        'from      the old one, commit None',
        '0.65 worse than token frequencies alone (6.400)',
        '**Warning: this model has learned nothing',
        'at step 6. The weights are those of step 7.',
    ):
        assert expected in text


@pytest.mark.parametrize('value', ['org/model', 'hf:org/model', 'runs/small', 'text'])
def test_names_that_are_not_local_paths_are_kept(value):
    assert card.public_name(value) == value
    for path in ('C:\\books\\one.txt', '../../one.txt'):
        assert card.public_name(path) == 'one.txt'


def test_the_card_of_a_decoder_states_its_attention():
    model = trained()
    text = card.text(model, 'Qwen3ForCausalLM', 1234)
    assert 'pipeline_tag: feature-extraction' in text and 'cannot generate' in text
    assert 'AutoModel.from_pretrained' in text and "pooled by 'mean'" in text
    assert 'Needs transformers' not in text
    left = dataclasses.replace(model, causal=True, shift=1)
    text = card.text(left, 'Qwen3ForCausalLM', 1234)
    assert 'pipeline_tag: text-generation' in text and 'MNTP' not in text
    assert "pooled by 'mean'" in text and 'cannot generate' not in text


@pytest.mark.parametrize('loss, learned', [(5.0, True), (7.05, False), (math.nan, False)])
def test_the_card_states_whether_anything_was_learned(loss, learned):
    measured = {'heldout/mlm_loss': loss, 'heldout/unigram_entropy': 6.4}
    sentences = tuple(frequencies.sentences(measured, 'mlm'))
    facts = card.Facts(step=7, measured=measured, measured_at=7, sentences=sentences)
    text = card.text(trained(), 'EuroBertForMaskedLM', 1234, facts)
    assert ('learned nothing' in text.split('## Measured')[0]) is not learned
    if not math.isnan(loss):
        words = '1.40 better' if learned else '0.65 worse'
        assert f'{words} than token frequencies alone (6.400)' in text


@pytest.mark.parametrize('causal, shift', [(False, 1), (False, 0), (True, 1), (True, 0)])
def test_the_shift_of_the_head_is_restored(tmp_path, causal, shift):
    """MNTP predicts a token one position before it; a causal MLM at its position."""
    model = dataclasses.replace(trained(), causal=causal, shift=shift)
    export.write(model, tmp_path / 'out')
    again = load.load(f'hf:{tmp_path / "out"}')
    assert again.shift == shift
    if causal and shift:  # as after CLM, of which it cannot be told apart
        with pytest.raises(ValueError, match='not trained to predict masked tokens'):
            again.fill(TEXT)
    else:
        assert again.fill(TEXT) == model.fill(TEXT)
    assert ('jepa_text' in config_of(tmp_path / 'out')) == (shift != int(causal))
    other = dataclasses.replace(model, shift=1 - shift)
    with pytest.raises(RuntimeError, match='shift of its head'):
        export.compared(other, tmp_path / 'out')


def test_a_decoder_that_became_an_encoder_keeps_its_advice(tmp_path):
    model, _ = imported(tmp_path, 'qwen3', adapt={})
    export.write(model, tmp_path / 'out', family='qwen3')
    again = load.load(f'hf:{tmp_path / "out"}')
    assert again.record['advice'] == model.record['advice'] == 'mntp'


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


def test_imported_models_have_no_steps(tmp_path):
    with pytest.raises(ValueError, match='step=12 has no meaning: leave it out'):
        export.run({'to': tmp_path / 'x', 'step': 12}, 'hf:x')


def test_export_to_an_address(tmp_path):
    model, source = imported(tmp_path, 'llama')
    store = fsspec.filesystem('memory')
    store.store.clear()
    export.run({'to': 'memory://shelf/model'}, f'hf:{source}')
    store.get('/shelf/model', str(tmp_path / 'back'), recursive=True)
    texts = ['w7 w9 w11', 'w20']
    again = load.load(f'hf:{tmp_path / "back"}')
    assert_array_equal(again.encode(texts), model.encode(texts))
    with pytest.raises(FileExistsError, match='memory://shelf/model already exists'):
        export.run({'to': 'memory://shelf/model'}, f'hf:{source}')


def test_the_command_line():
    command = ['jepa-text', 'export', '--workdir=runs/x', '--to=out', '--step=5']
    call = main.read(command)
    assert call.config == {'to': 'out', 'step': 5} and call.workdir == 'runs/x'
    with pytest.raises(ValueError, match='--to is missing'):
        export.run({}, 'runs/x')


# Comparison with transformers and sentence-transformers.


def theirs(folder, kind):
    transformers = pytest.importorskip('transformers')
    return transformers.AutoTokenizer.from_pretrained(folder), reading(folder, kind)


def reading(folder, kind):
    transformers = pytest.importorskip('transformers')
    kind = getattr(transformers, kind)
    return kind.from_pretrained(folder, dtype='float32').eval()


def called(model, batch, **options):
    import torch

    with torch.no_grad():
        return model(**batch, **options)


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


@pytest.mark.peer
@pytest.mark.parametrize('objective, kind', [('mlm', 'MaskedLM'), ('clm', 'CausalLM')])
def test_transformers_computes_the_same_scores(tmp_path, objective, kind):
    pytest.importorskip('torch')
    model = dataclasses.replace(trained(objective), causal=objective == 'clm')
    export.write(model, tmp_path / 'out')
    tokenizer, other = theirs(tmp_path / 'out', f'AutoModelFor{kind}')
    assert type(other).__name__ == config_of(tmp_path / 'out')['architectures'][0]
    texts = ['Call me Ishmael. Some years ago', 'My fellow Americans:']
    batch = tokenizer(texts, return_tensors='pt', padding=True)
    rows = [model.row(text) for text in texts]
    tokens, segments, positions = model.pad(rows, 2)
    assert_array_equal(batch['input_ids'], tokens[:, : batch['input_ids'].shape[1]])
    wanted = export._logits(
        model.network.encoder, model, True, (tokens, segments, positions)
    )
    real = batch['attention_mask'].bool()
    assert_allclose(called(other, batch).logits[real].numpy(), wanted, atol=1e-4)


@pytest.mark.peer
@pytest.mark.parametrize('case', CASES)
def test_transformers_reads_every_family(tmp_path, case):
    """With the same results as for the folder that was imported."""
    torch = pytest.importorskip('torch')
    model, source = imported(tmp_path, case)
    export.write(model, tmp_path / 'out')
    kind = f'AutoModelFor{"CausalLM" if CASES[case][1] else "MaskedLM"}'
    (_, other), wanted = theirs(tmp_path / 'out', kind), reading(source, kind)
    tokens, segments = (torch.tensor(x[:2]).long() for x in hf_cases.batch()[:2])
    batch = {'input_ids': tokens, 'attention_mask': (segments > 0).long()}
    found, real = called(other, batch).logits[segments > 0], segments > 0
    assert_allclose(found, called(wanted, batch).logits[real], atol=1e-5)


OWN = {
    'roberta': dict(name='bert', position_offset=1, positions=40),
    'xlm-roberta': dict(
        name='bert', position_offset=1, positions=40, act='relu', head_act='gelu', types=1
    ),
    'bert': dict(name='bert', position_offset=2, positions=40),
    'qwen2': dict(name='transformer', kv_heads=2, qkv_bias=True, window=5),
}


def own(family):
    """A model built with the options of another family."""
    sizes = dict(width=64, depth=2, heads=4, ffn_width=96)
    left = dict(causal=True, shift=1) if family == 'qwen2' else {}
    model = trained('clm' if left else 'mlm', **{**sizes, **OWN[family], 'preset': None})
    params = jax.tree.map(lambda x: x / 2 if x.ndim > 1 else x, model.params)
    if family == 'qwen2':
        content = json.loads(model.tokenizer.content.replace('<mask>', '<|endoftext|>'))
        left['tokenizer'] = tokenizers.parse(hf_cases.as_qwen(content), '', ('mask',))
    return dataclasses.replace(model, params=params, **left)


@pytest.mark.slow
@pytest.mark.parametrize('family', OWN)
def test_models_are_exported_to_a_given_family(tmp_path, family):
    found = export.write(own(family), tmp_path / 'out', family=family)
    assert found['family'] == family and found['difference'] < 1e-4
    assert config_of(tmp_path / 'out')['model_type'] == family


def test_roberta_counts_positions_from_its_padding_id(tmp_path):
    """transformers detects padding by its id: here that of <bos>, in every text."""
    with pytest.raises(
        ValueError, match="position_offset=2, .* 1; the id is 0 .*family='bert'"
    ):
        export.write(own('bert'), tmp_path / 'out')
    assert not list(tmp_path.iterdir())


@pytest.mark.peer
@pytest.mark.parametrize('family', OWN)
def test_transformers_computes_the_same_scores_for_a_given_family(tmp_path, family):
    torch = pytest.importorskip('torch')
    model = own(family)
    export.write(model, tmp_path / 'out', family=family)
    kind = f'AutoModelFor{"CausalLM" if model.causal else "MaskedLM"}'
    other = reading(tmp_path / 'out', kind)
    assert other.config.model_type == family
    batch = export._sample(model, model.ends())
    wanted = export._logits(model.network.encoder, model, to_family.tied(model), batch)
    tokens, real = torch.tensor(batch[0]).long(), torch.tensor(batch[1] > 0)
    found = called(other, {'input_ids': tokens, 'attention_mask': real.long()}).logits
    assert_allclose(found[real].numpy(), wanted, atol=1e-4)


@pytest.mark.peer
@pytest.mark.parametrize('window', ['none', 'two_sided'])
@pytest.mark.parametrize('case', ['qwen3', 'smollm3', 'mistral'])
def test_decoders_attend_bidirectionally_in_transformers_too(tmp_path, case, window):
    pytest.importorskip('torch')
    model, _ = imported(tmp_path, case, adapt={'window': window})
    export.write(model, tmp_path / 'out', family=case)
    _, other = theirs(tmp_path / 'out', 'AutoModelForCausalLM')
    import torch

    batch = hf_cases.batch()
    tokens, segments = (torch.tensor(x[:2]).long() for x in batch[:2])
    found = called(other, {'input_ids': tokens, 'attention_mask': (segments > 0).long()})
    first = tuple(x[:2] for x in batch)
    wanted = export._logits(model.network.encoder, model, to_family.tied(model), first)
    assert_allclose(found.logits[segments > 0].numpy(), wanted, atol=1e-4)


@pytest.mark.peer
@pytest.mark.parametrize('kind', ['sequence', 'token'])
def test_task_heads_compute_the_same_scores_in_transformers(tmp_path, kind):
    pytest.importorskip('torch')
    model, head = trained(), task(kind)
    export.write(model, tmp_path / 'out', task=head)
    name = 'Sequence' if kind == 'sequence' else 'Token'
    tokenizer, other = theirs(tmp_path / 'out', f'AutoModelFor{name}Classification')
    text = 'Call me Ishmael.'
    found = called(other, tokenizer(text, return_tensors='pt')).logits[0].numpy()
    bare = dataclasses.replace(model, params={'encoder': model.params['encoder']})
    batch = model.pad([model.row(text)], 1)
    hidden = export._logits(model.network.encoder, bare, True, batch)
    if kind == 'sequence':
        dense = head.params['dense']
        hidden = jax.nn.gelu(hidden.mean(0) @ dense['kernel'] + dense['bias'], False)
    last = head.params['classifier']
    wanted = jnp.asarray(hidden) @ last['kernel']
    assert_allclose(
        found, wanted + np.broadcast_to(last['bias'], wanted.shape), atol=1e-4
    )


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
    tokenizer, other = theirs(tmp_path / 'out', 'AutoModelForMaskedLM')
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
