"""Fine-tuned models have the same logits in transformers, with its family's classes."""

import dataclasses
import functools
import json

import draws
import examined
import hf_cases
import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_hf_export import config_of
from test_hf_import import tensors_of

from jepa_text import main
from jepa_text.data import tokenizers
from jepa_text.evaluation import config, finetune, finetune_command
from jepa_text.models.network import Network
from jepa_text.pretrained import (
    export,
    exported,
    labels,
    load,
    prediction,
    saved,
    spans,
    tags,
)
from jepa_text.settings import resolve

TEXTS = ['Call me Ishmael.', 'Some years ago, never mind how long precisely!', 'a']
WORDS = [text.split() for text in TEXTS]
CONTEXTS = ['It was the whale, white as snow.', 'My fellow Americans.', 'Ship ahoy!']
NAMES = ('red', 'green', 'blue')
SIZES = dict(width=32, depth=2, heads=2, ffn_width=48)
_TRANSFORMER = dict(name='transformer', kv_heads=1, **SIZES)
ENCODERS = {
    'eurobert': _TRANSFORMER,
    'bert': dict(name='bert', positions=64, **SIZES),
    'modernbert': dict(name='modernbert', **SIZES),
    'llama': dict(_TRANSFORMER, qkv_bias=True, ffn_bias=True, o_bias=True),
    'mistral': dict(_TRANSFORMER, window=5),
    'qwen2': dict(_TRANSFORMER, qkv_bias=True),
    'qwen3': dict(_TRANSFORMER, qk_norm=True),
    'smollm3': dict(_TRANSFORMER, rope_theta=(1e4, None)),
    'roberta': dict(name='bert', positions=65, position_offset=1, **SIZES),
}
ROLES = ('pad', 'bos', 'eos')
NORMED = dict(act='gelu_norm')
KINDS = ('labels', 'scores', 'tags', 'spans')
# First each family with one kind, by turns.
CASES = [
    (family, KINDS[(number + turn) % len(KINDS)])
    for turn in range(len(KINDS))
    for number, family in enumerate(ENCODERS)
]
# The classes of EuroBERT have the layers of both; it has none for spans.
EXPORTED_AS = dict.fromkeys(('llama', 'qwen2'), 'eurobert')
OF_SPANS = dict.fromkeys(('eurobert', 'llama', 'qwen2'), 'llama')


def exported_as(family, name):
    """The family that a model with these layers is exported to by default."""
    others = OF_SPANS if name == 'spans' else EXPORTED_AS
    return others.get(family, family)


@functools.cache
def tuned(family, name, **options):
    """A tiny model whose head, by default the family's, has parameters far from zero."""
    tokenizer = tokenizers.load(tokenizers.BUNDLED)
    own = dict(labels=NAMES) if name in ('labels', 'tags') else {}
    kind = saved.KINDS[name](**own, **options)
    encoder = resolve.build('models', ENCODERS[family], vocab_size=tokenizer.vocab_size)
    model = load.Pretrained(Network(encoder, kind), {}, tokenizer, 64, 'tiny')
    if not options:
        kind = exported.with_usual_head(kind, model)
        assert exported.obstacle(kind, model) is None
    network = Network(encoder, kind)
    params = draws.params(lambda: network.init(0), 0.1)
    return dataclasses.replace(model, network=network, params=params, kind=kind)


def asked(name):
    first = WORDS if name == 'tags' else TEXTS
    return (first, CONTEXTS) if name == 'spans' else (first,)


def alike(found, wanted, atol=1e-5):
    """Compares answers: equal words, and numbers within `atol`."""
    leaves, structure = jax.tree.flatten(found)
    others, other = jax.tree.flatten(wanted)
    assert structure == other
    for one, another in zip(leaves, others, strict=True):
        if isinstance(one, str):
            assert one == another
        else:
            assert_allclose(one, another, atol=atol)


@pytest.mark.parametrize('family, name', draws.in_stages(*CASES, slow=3))
def test_exported_models_give_the_same_answers(tmp_path, family, name):
    model = tuned(family, name)
    found = export.write(model, tmp_path / 'out')
    assert found['family'] == exported_as(family, name)
    assert config_of(tmp_path / 'out')['architectures'] == [found['architecture']]
    again = load.load(f'hf:{tmp_path / "out"}')
    assert again.kind == model.kind and again.length == model.length
    said = (tmp_path / 'out' / 'README.md').read_text()
    assert ('the tokenizer adds none' in said) == (name == 'tags')
    alike_heads(again, model)
    if family in ('bert', 'modernbert'):
        answers = model.predict(*asked(name))
        alike(again.predict(*asked(name)), answers)
        # The answers are not all the same, which would make this trivial.
        assert len({str(answer) for answer in answers}) == len(TEXTS)
    _of_others(tmp_path / 'out', model)


@pytest.mark.parametrize('family, center', [('bert', 0.0), ('qwen3', 1900.0)])
def test_scores_have_their_scale_in_the_head_of_an_export(tmp_path, family, center):
    """And their center, if the class has a bias; else the card has it."""
    model = tuned(family, 'scores')
    kind = dataclasses.replace(model.kind, center=1900.0, scale=50.0)
    model = dataclasses.replace(model, kind=kind)
    export.write(model, tmp_path / 'out')
    again = load.load(f'hf:{tmp_path / "out"}')
    assert (again.kind.center, again.kind.scale) == (center, 1.0)
    alike(again.predict(TEXTS), model.predict(TEXTS), atol=1e-2)
    card = (tmp_path / 'out' / 'README.md').read_text()
    assert ('its logit + 1900.0' in card) == bool(center)


def alike_heads(found, wanted):
    found, wanted = (jax.tree.map(np.asarray, x.params) for x in (found, wanted))
    jax.tree.map(assert_array_equal, found['task_head'], wanted['task_head'])


def _of_others(folder, model):
    """As others write one: what its config.json and architecture say is enough, but how a
    question and its context were joined is unknown."""
    config = config_of(folder)
    del config['jepa_text'], config['num_labels']
    (folder / 'config.json').write_text(json.dumps(config))
    again = load.load(f'hf:{folder}')
    if isinstance(model.kind, spans.Spans):
        assert again.kind is None
        return
    same = dict(template='{first}') if isinstance(model.kind, labels._TextKind) else {}
    assert again.kind == dataclasses.replace(model.kind, **same)
    alike_heads(again, model)
    if same:
        with pytest.raises(ValueError, match='This model reads single texts'):
            again.predict(TEXTS, CONTEXTS)


REFUSED = [
    ('bert', 'labels', dict(pool='mean'), r"'mean', act='gelu'.*pool='cls'.*act='tanh'"),
    ('bert', 'scores', dict(pool='cls', act='gelu'), "finetuning.act='tanh'"),
    ('bert', 'tags', NORMED, "act='gelu_norm': fine-tune with finetuning.act=''"),
    ('eurobert', 'labels', dict(act=''), "act=''.*finetuning.act='gelu'"),
    ('eurobert', 'labels', dict(pool='max'), "pool='max'.*pool='mean' or 'cls'"),
    ('eurobert', 'spans', dict(act=''), 'question answering.*have it: llama, mistral'),
    ('mistral', 'labels', dict(pool='mean'), "pool='last', finetuning.act='unbiased'"),
    ('modernbert', 'labels', dict(act='gelu'), "finetuning.act='gelu_norm'"),
    ('modernbert', 'tags', dict(act=''), "act='': fine-tune with finetuning.act='gelu_n"),
    ('modernbert', 'spans', dict(act=''), "finetuning.act='gelu_norm'"),
]


@pytest.mark.parametrize('family, name, options, message', REFUSED)
def test_heads_without_a_class_raise_with_alternative_settings(
    tmp_path, family, name, options, message
):
    with pytest.raises(ValueError, match=message):
        export.write(tuned(family, name, **options), tmp_path / 'out', family=family)
    assert not list(tmp_path.iterdir())


def test_spans_learned_per_token_are_token_classification(tmp_path):
    model = tuned('eurobert', 'spans', learn='tokens', stride=0)
    found = export.write(model, tmp_path / 'out')
    assert found['architecture'] == 'EuroBertForTokenClassification'
    assert tuple(config_of(tmp_path / 'out')['id2label'].values()) == exported.MARKS
    again = load.load(f'hf:{tmp_path / "out"}')
    alike(again.predict(*asked('spans')), model.predict(*asked('spans')))


def test_the_command_exports_a_fine_tuned_model(tmp_path, capsys):
    model = tuned('eurobert', 'labels')
    made = dict(model='runs/a', task='sea', test={'standard': {'accuracy': 0.75}})
    saved.write(tmp_path / 'tuned', model, made)
    out = tmp_path / 'out'
    command = ['jepa-text', 'export', f'--workdir={tmp_path / "tuned"}', f'--to={out}']
    assert main.main([*command, '--step=3']) == 2
    assert 'has no steps, so step=3 has no meaning' in capsys.readouterr().err
    assert main.main(command) == 0
    assert 'EuroBertForSequenceClassification' in capsys.readouterr().out
    text = (out / 'README.md').read_text()
    assert "task='sea'" in text and '| accuracy | 0.7500 |' in text
    assert 'pipeline_tag: text-classification' in text and '- from runs/a' in text
    alike(load.load(f'hf:{out}').predict(TEXTS), model.predict(TEXTS))


@pytest.mark.parametrize(
    'pool, is_refused', draws.in_stages(('auto', False), ('mean', True))
)
def test_a_bert_is_tuned_so_that_it_can_be_exported(tmp_path, capsys, pool, is_refused):
    """By default; with another pooling, it is said before training."""
    (tmp_path / 'bert').mkdir()
    hf_cases.write(tmp_path / 'bert', hf_cases.CASES['bert'][0], tensors_of('bert'))
    hf_cases.add_template(tmp_path / 'bert')
    rows = [{'text': f'w{i} w9', 'label': NAMES[i % 2]} for i in range(5, 35)]
    (tmp_path / 'a.jsonl').write_text('\n'.join(map(json.dumps, rows)))
    section = dict(
        model=f'hf:{tmp_path / "bert"}',
        task=dict(name='labeled', path=str(tmp_path / 'a.jsonl')),
        finetuning=dict(pool=pool, steps=1),
    )
    finetune_command.finetune(section, tmp_path / 'tuned')
    before = capsys.readouterr().out.split('step ')[0]
    assert ('Note: `jepa-text export` will refuse' in before) == is_refused
    command = ['jepa-text', 'export', f'--workdir={tmp_path / "tuned"}']
    assert main.main([*command, f'--to={tmp_path / "out"}']) == (2 if is_refused else 0)


def test_what_no_class_computes_is_known_before_training(tmp_path):
    """A decoder whose texts end in its padding token, whose class reads the token before
    it, a layer that its class lacks, and a kind of one's own."""
    model = tuned('qwen3', 'labels')
    padded = dataclasses.replace(model, end=(model.tokenizer.pad_id,))
    assert 'no class of transformers' in exported.obstacle(model.kind, padded)
    bert = tuned('bert', 'labels')
    bare = dataclasses.replace(bert, begin=())
    kind = finetune.with_head(labels.Labels(labels=NAMES), config.Finetuning(), bare)
    assert kind.pool == 'mean' and "pool='mean'" in exported.obstacle(kind, bare)
    settings = config.Finetuning(act='')
    kind = finetune.with_head(model.kind, settings, model)
    assert (kind.pool, kind.act) == ('last', '')
    assert "act='unbiased'" in exported.obstacle(kind, model)
    assert finetune.with_head(model.kind, config.Finetuning(), model) == model.kind
    pooled = dataclasses.replace(bert, pool='cls')
    assert finetune.with_head(labels.Vectors(), config.Finetuning(), pooled).pool == 'cls'

    class Order(tags.Tags):
        name = 'order'

    order = Order(labels=NAMES)
    assert finetune.with_head(order, config.Finetuning(), model) == order
    assert 'its layers and a head for order' in exported.obstacle(order, model)
    with pytest.raises(ValueError, match='No class of transformers has a head for order'):
        export.write(dataclasses.replace(model, kind=order), tmp_path / 'out')


@pytest.mark.slow
def test_heads_of_causal_models_are_not_read_in_both_directions(tmp_path):
    export.write(tuned('qwen3', 'tags'), tmp_path / 'out')
    found = config_of(tmp_path / 'out')
    (tmp_path / 'out' / 'config.json').write_text(json.dumps(found | {'is_causal': True}))
    again = load.load(f'hf:{tmp_path / "out"}')
    assert again.causal and again.kind is None


@pytest.mark.parametrize(
    'family, architecture',
    draws.in_stages(('eurobert', 'EuroBertModel'), ('qwen3', 'Qwen3Model'), fast=1),
)
def test_retrieval_models_are_exported_without_head(tmp_path, family, architecture):
    plain = tuned(family, 'labels')
    kind = labels.Vectors(pool='mean')
    params = {'encoder': plain.params['encoder'], 'task_head': {}}
    network = Network(plain.network.encoder, kind)
    changes = dict(network=network, params=params, kind=kind, normalize=True)
    model = dataclasses.replace(plain, **changes)
    assert exported.obstacle(kind, model) is None
    assert export.write(model, tmp_path / 'out')['architecture'] == architecture
    again = load.load(f'hf:{tmp_path / "out"}')
    assert_allclose(again.encode(TEXTS), model.encode(TEXTS), atol=1e-5)
    with pytest.raises(ValueError, match='use model.encode.*not predict'):
        model.predict(TEXTS, TEXTS)


def test_labels_of_a_later_training_elsewhere_count(tmp_path):
    """What we wrote of our kind stays in config.json as it was."""
    export.write(tuned('bert', 'labels'), tmp_path)
    config = config_of(tmp_path)
    for number, label in ((0, 'ham'), (1, 'spam'), (2, 'eggs')):
        config['id2label'][str(number)] = label
    (tmp_path / 'config.json').write_text(json.dumps(config))
    model = load.load(f'hf:{tmp_path}')
    assert model.kind.labels == ('ham', 'spam', 'eggs')
    config |= dict(problem_type='regression')
    (tmp_path / 'config.json').write_text(json.dumps(config))
    assert load.load(f'hf:{tmp_path}').kind is None  # three numbers are no kind of ours


def test_a_different_head_in_the_folder_is_detected(tmp_path):
    model = tuned('bert', 'labels')
    export.write(model, tmp_path / 'out')
    head = exported.head_of(model.kind, model.params['task_head'])
    bare = dataclasses.replace(model, params={'encoder': model.params['encoder']})
    export.compared(bare, tmp_path / 'out', head, head.tensors('bert'))
    other = dataclasses.replace(head, labels=('red', 'blue', 'green'))
    with pytest.raises(RuntimeError, match='the head of its task'):
        export.compared(bare, tmp_path / 'out', other, head.tensors('bert'))
    changed = jax.tree.map(lambda x: x + 1e-3, head.params)
    other = dataclasses.replace(head, params=changed)
    with pytest.raises(RuntimeError, match='has other values'):
        export.compared(bare, tmp_path / 'out', other, other.tensors('bert'))


AUTO = {
    'labels': 'SequenceClassification',
    'scores': 'SequenceClassification',
    'tags': 'TokenClassification',
    'spans': 'QuestionAnswering',
}


@pytest.mark.peer
@pytest.mark.parametrize('family, name', CASES)
def test_transformers_has_the_same_logits(tmp_path, family, name):
    """For a padded batch from its own tokenizer."""
    torch = pytest.importorskip('torch')
    transformers = pytest.importorskip('transformers')
    model = tuned(family, name)
    export.write(model, tmp_path / 'out')
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / 'out')
    loader = getattr(transformers, f'AutoModelFor{AUTO[name]}')
    other, info = loader.from_pretrained(tmp_path / 'out', output_loading_info=True)
    assert not info['missing_keys'] and not info['unexpected_keys']
    rows = model.kind.rows(
        prediction.reader(model), examined.tasks.Examples(*asked(name))
    )
    texts = [tokenizer.decode(row.tokens, skip_special_tokens=True) for row in rows]
    batch = tokenizer(texts, return_tensors='pt', padding=True)
    batch.pop('token_type_ids', None)
    wanted = prediction.outputs(model, model.kind, rows)
    with torch.no_grad():
        found = other.eval()(**batch)
    if name == 'spans':
        logits = torch.stack([found.start_logits, found.end_logits], dim=-1)
    else:
        logits = found.logits
    for row, ids, one, ours in zip(rows, batch['input_ids'], logits, wanted):
        count = len(row.tokens)
        assert ids[:count].tolist() == row.tokens.tolist()
        if name in ('tags', 'spans'):
            one, ours = one[:count], ours[:count]
        assert_allclose(one.numpy(), ours, atol=1e-4)
    if name == 'labels':
        pipeline = transformers.pipeline(
            'text-classification', model=str(tmp_path / 'out')
        )
        labels_of = [answer['label'] for answer in model.predict(TEXTS)]
        assert [one['label'] for one in pipeline(TEXTS)] == labels_of
        assert other.config.label2id == {'red': 0, 'green': 1, 'blue': 2}
        assert other.config.problem_type == 'single_label_classification'
    if name == 'scores':
        assert other.config.problem_type == 'regression' and other.config.num_labels == 1


@pytest.mark.peer
@pytest.mark.parametrize('kind', ['SequenceClassification', 'TokenClassification'])
@pytest.mark.parametrize('family', ['Bert', 'Roberta', 'ModernBert', 'EuroBert'])
def test_imported_classifiers_predict_the_same(tmp_path, family, kind):
    torch = pytest.importorskip('torch')
    transformers = pytest.importorskip('transformers')
    torch.manual_seed(0)
    bundled = tokenizers.load(tokenizers.BUNDLED)
    changes = {f'{name}_token_id': getattr(bundled, f'{name}_id') for name in ROLES}
    changes |= dict(hidden_size=32, intermediate_size=48, num_attention_heads=2)
    changes |= dict(id2label=dict(enumerate(NAMES)), initializer_range=0.3)
    if family == 'EuroBert':
        # The default pooling, of token scores, is not supported.
        changes['classifier_pooling'] = 'mean'
    given = transformers, tmp_path, kind, family
    other = examined.model_of_others(*given, **changes).eval()
    model = load.load(f'hf:{tmp_path}')
    ids = model.tokenizer.bos_id, model.tokenizer.eos_id
    model = dataclasses.replace(model, begin=ids[:1], end=ids[1:])
    is_tags = kind == 'TokenClassification'
    assert isinstance(model.kind, tags.Tags if is_tags else labels.Labels)
    for text, words in zip(TEXTS, WORDS):
        (row,) = model.kind.rows(
            prediction.reader(model),
            examined.tasks.Examples([words if is_tags else text]),
        )
        with torch.no_grad():
            found = other(input_ids=torch.tensor(row.tokens[None]).long()).logits[0]
        shares = found.softmax(-1).numpy()
        (answer,) = model.predict([words if is_tags else text])
        if is_tags:
            first = [int(np.argmax(row.notes == i)) for i in range(len(words))]
            assert answer['tags'] == [NAMES[shares[i].argmax()] for i in first]
            wanted = [shares[i].max() for i in first]
            assert_allclose(answer['probabilities'], wanted, atol=1e-5)
        else:
            assert_allclose(list(answer['probabilities'].values()), shares, atol=1e-5)
