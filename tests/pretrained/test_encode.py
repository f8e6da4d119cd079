"""Vectors of texts do not depend on batches or the number of devices."""

import copy
import dataclasses
import pickle

import draws
import examined
import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text.models import pooling
from jepa_text.models.network import Network
from jepa_text.parallel import sharding
from jepa_text.pretrained import base, labels, load
from jepa_text.settings import resolve

TEXT = 'the whale saw a captain of the union in her garden at night'
WORDS = 4 * TEXT.split()
OTHERS = sorted({*pooling.POOLINGS} - {'mean'})
TEXTS = [' '.join(WORDS[n % 7 : n % 7 + 1 + n % 31]) for n in range(40)]
# All padded to 16 tokens, so that few shapes are compiled.
ALIKE = [' '.join(WORDS[n : n + 6 + n % 3]) for n in range(7)]


@pytest.fixture(scope='module')
def model():
    return examined.model()


def test_half_of_a_surrogate_pair_is_named(model):
    """In place of the TypeError of the tokenizer."""
    words = r"text 2 of 2: 'a\\ud800': .* half of a surrogate pair"
    with pytest.raises(ValueError, match=words):
        model.encode(['a', 'a\ud800'])
    for call in (model.row, lambda text: model.fill(f'{text} <mask>')):
        with pytest.raises(ValueError, match='half of a surrogate pair'):
            call('a\ud800')
    reader = base.Reader(model.tokenizer, *model.ends(), 64)
    with pytest.raises(ValueError, match=words):
        next(reader.encode(['a', 'a\ud800']))


def test_tokens_of_texts_are_not_held_together(model, monkeypatch):
    monkeypatch.setattr(base, 'TOGETHER', 2)
    read = base.Reader(model.tokenizer, *model.ends(), 64).encode(['a', 'b', 'c', ''])
    assert len([next(read) for _ in range(3)]) == 3
    with pytest.raises(ValueError, match='text 3 of 4, from 0'):
        next(read)


def test_a_model_is_shown_without_its_vocabulary_and_parameters(model):
    assert len(repr(model)) < 2000


@pytest.mark.parametrize('pool', draws.in_stages('mean', *OTHERS))
def test_vectors_do_not_depend_on_the_batch(model, pool):
    """Compares with one row without padding, and with other batches."""
    together = model.encode(TEXTS, pool=pool)
    apply = jax.jit(lambda p, *x: model.network.apply('encoder', p, *x, causal=False))
    for number in (0, 7, 30):
        row_L = model.row(TEXTS[number])
        batch = (
            row_L[None],
            np.ones((1, len(row_L)), np.int32),
            np.arange(len(row_L))[None],
        )
        hidden_1LD = apply(model.params, *batch)
        alone_1D = pooling.POOLINGS[pool](hidden_1LD, batch[1] > 0)
        assert_allclose(together[number], alone_1D[0], atol=1e-5)
    assert_allclose(model.encode(TEXTS, pool=pool, batch_size=2), together, atol=1e-5)
    assert_allclose(model.encode(TEXTS[::-1], pool=pool)[::-1], together, atol=1e-5)


@pytest.mark.parametrize(
    'shape, axes, rows',
    draws.in_stages(
        ((2, 2), ('data', 'fsdp'), 4),
        ((4,), ('fsdp',), 4),
        ((2, 2), ('tensor', 'data'), 2),
    ),
)
def test_a_model_is_sharded_when_it_is_loaded(model, tmp_path, shape, axes, rows):
    tuned = examined.with_head(model, labels.Labels(labels=(1, 2, 3)))
    mesh, traced = jax.make_mesh(shape, axes), []
    total = jax.jit(lambda model: traced.append(model) or sum_of(model))
    for name, one in (('plain', model), ('tuned', tuned)):
        one.save(tmp_path / name)
        shared, again = (load.load(tmp_path / name, mesh=mesh) for _ in range(2))
        up = shared.params['encoder']['layers']['ffn']['up']['kernel']
        assert len(up.sharding.device_set) == 4
        sizes = sharding.shardings(model.params, sharding.completed(mesh))
        assert up.sharding == sizes['encoder']['layers']['ffn']['up']['kernel']
        assert_allclose(total(shared), sum_of(one), rtol=1e-4)
        assert total(again) == total(shared)
        assert_allclose(shared.encode(TEXTS), one.encode(TEXTS), atol=1e-5)
        assert_allclose(shared.encode(TEXTS[0]), one.encode(TEXTS[0]), atol=1e-5)
        _, devices = sharding.on_rows(print, shared.params)
        assert devices == rows
    assert len(traced) == 2
    answers = (one.predict(TEXTS) for one in (shared, tuned))
    for one, two in zip(*answers, strict=True):
        assert one['label'] == two['label'] and type(one['label']) is int
    shared = load.load(tmp_path / 'plain', mesh=mesh)
    ((first, *_),), ((second, *_),) = (
        one.fill('the <mask> saw') for one in (shared, model)
    )
    assert first[0] == second[0]
    assert_allclose(first[1], second[1], rtol=1e-4)


def sum_of(model):
    return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(model))


def test_a_mesh_has_axes_of_the_table(tmp_path):
    with pytest.raises(ValueError, match='axes batch; expected some of data, fsdp'):
        load.load(tmp_path, mesh=jax.make_mesh((4,), ('batch',)))


@pytest.mark.parametrize('other', [('a query', 'a text'), ['a', 'b'], None, float('nan')])
def test_what_is_not_a_text_is_rejected(model, other):
    """A pair of texts would become a single vector."""
    with pytest.raises(ValueError, match=r'texts\[1\]=.* is not a text, but a '):
        model.encode(['the whale', other])
    for method in (model.tokens, model.fill):
        with pytest.raises(ValueError, match='text=.* is not a text, but a '):
            method(other)


@pytest.mark.parametrize('count', [0, -9, 2.5, '1'])
def test_counts_that_are_no_integers_above_zero_are_refused(model, count):
    with pytest.raises(ValueError, match=f'batch_size={count!r} must be an integer at l'):
        model.encode(TEXTS, batch_size=count)
    with pytest.raises(ValueError, match=f'top={count!r} must be an integer at least 1'):
        model.fill('The <mask>.', top=count)
    with pytest.raises(ValueError, match=f'max_length={count!r} must be an integer'):
        examined.with_head(model, labels.Labels(labels=('a', 'b'))).predict(
            TEXTS, None, count
        )
    layer = count or 9
    with pytest.raises(ValueError, match=f'layer={layer!r} must be an integer at least'):
        model.encode(TEXTS, layer=layer)


@pytest.mark.parametrize(
    'texts, kind',
    [
        (None, 'NoneType'),
        (7, 'int'),
        (b'the whale', 'bytes'),
        ({'the whale': 1}, 'dict'),
        ({'the whale', 'a captain'}, 'set'),
        (pandas.DataFrame({'text': ['the whale']}), 'DataFrame'),
        (np.array('the whale'), 'ndarray'),
        (np.array([['the whale']]), 'ndarray'),
    ],
)
def test_what_has_no_order_or_no_texts_is_refused(model, texts, kind):
    """A table would be the names of its columns, and a set has an order by chance."""
    with pytest.raises(ValueError, match=f'a list of texts, but got a {kind}: put'):
        model.encode(texts)


@hypothesis.settings(max_examples=5, deadline=None)
@hypothesis.given(
    hypothesis.strategies.lists(hypothesis.strategies.sampled_from(ALIKE), max_size=5)
)
def test_texts_may_be_one_string_or_any_iterable(model, texts):
    """As in sentence-transformers."""
    vectors_ND = model.encode(texts, batch_size=4)
    assert vectors_ND.shape == (len(texts), 64) and vectors_ND.dtype == np.float32
    column = pandas.Series(texts, range(7, 7 + len(texts)), dtype=object)
    array = np.array(texts, dtype=object)
    for given in (tuple(texts), array, iter(texts), column):
        assert_allclose(model.encode(given), vectors_ND, atol=1e-5)
    for text, vector_D in zip(texts[:1], vectors_ND):
        assert_allclose(model.encode(text), vector_D, atol=1e-5)
        unit_D = vector_D / np.linalg.norm(vector_D)
        assert_allclose(model.encode(text, normalize=True), unit_D, atol=1e-5)
        assert ''.join(model.tokens(text)) == f'<bos>{text}<eos>'


def test_a_model_is_a_pytree(model):
    """A function of it, of a copy and of other parameters is compiled once."""
    traced = []
    norm = jax.jit(lambda model: traced.append(model) or sum_of(model))
    # A field that cannot be hashed, as in models of the Llama 3.1 family.
    stretched = dict(factor=8.0, low=1.0, high=4.0, length=6)
    encoder = model.network.encoder.clone(rope_scaling=stretched)
    network = Network(encoder, model.network.objective)
    model = dataclasses.replace(model, network=network)
    reloaded = copy.deepcopy(model)
    first = norm(model)
    assert first == norm(dataclasses.replace(reloaded, name='elsewhere'))
    halved = jax.tree.map(lambda x: x / 2, model)
    assert_allclose(norm(halved), first / 4, rtol=1e-5)
    assert len(traced) == 1
    norm(dataclasses.replace(model, pool='max'))
    assert len(traced) == 2
    assert halved.encode('the whale').shape == (64,)
    (path, _), *_ = jax.tree_util.tree_leaves_with_path(model)
    assert jax.tree_util.keystr(path).startswith(".params['encoder']")
    moved = jax.device_put(model, jax.devices()[1])
    assert moved.params['encoder']['embedding'].devices() == {jax.devices()[1]}


def test_truncated_texts_are_reported_once(model):
    long = 'whale ' * 200
    exact = model.tokenizer.decode(model.row(long)[1:-1])
    words = r'2 of 4 texts \(50%\) are longer than the 64'
    with pytest.warns(UserWarning, match=words) as caught:
        model.encode([long, 'whale', exact, long])
    assert len(caught) == 1 and caught[0].filename == __file__
    with pytest.raises(ValueError, match="text 1 of 2, .*: the text '' has no tokens"):
        model.encode(['whale', ''])
    assert model.encode([]).shape == (0, model.network.encoder.width)


def test_fill_shows_tokens_without_text_by_name(model):
    tokenizer = model.tokenizer
    (found,) = model.fill('The <mask>', top=tokenizer.vocab_size)
    words = [word for word, _ in found]
    assert len(words) == tokenizer.vocab_size and all(words)
    assert {'<mask>', '<pad>', ' the'} <= set(words)


def test_fill_leaves_out_rows_without_a_token(model):
    """As in models whose number of rows is rounded up."""
    encoder = model.network.encoder
    rows = encoder.vocab_size
    network = Network(encoder.clone(vocab_size=rows + 500), model.network.objective)

    def longer(x):
        more = [(0, 500 * (size == rows)) for size in x.shape]
        return jnp.pad(x, more, constant_values=9)

    params = jax.tree.map(longer, model.params)
    larger = dataclasses.replace(model, network=network, params=params)
    (found,) = larger.fill('the <mask> saw', top=10**4)
    assert len(found) == model.tokenizer.vocab_size
    assert all(isinstance(token, str) for token, _ in found)


def pickled(model):
    return pickle.loads(pickle.dumps(model))  # noqa: S301


@pytest.mark.parametrize('name', ['mlm', 'hybrid'])
@pytest.mark.parametrize('copied', [pickled, copy.deepcopy])
def test_a_model_is_pickled_and_copied_after_use(model, name, copied):
    given = dict(tokenizer=model.tokenizer, length=model.length, steps=9)
    objective = resolve.build('objectives', {'name': name}, **given)
    network = Network(model.network.encoder, objective)
    used = dataclasses.replace(model, network=network)
    text = 'the <mask> saw'
    expected, filled = used.encode(TEXTS[:2]), used.fill(text)
    again = copied(used)
    assert_array_equal(again.encode(TEXTS[:2]), expected)
    assert again.fill(text) == filled
    assert_array_equal(used.encode(TEXTS[:2]), expected)


@pytest.mark.parametrize(
    'section, fills',
    [
        (dict(name='mlm', attends='causal'), True),
        (dict(name='mlm', mask_share=0.0, random_share=1.0), False),
        (dict(name='clm'), False),
        (dict(name='mixture', parts=(dict(name='clm'), dict(name='mlm'))), True),
        (dict(name='mixture', parts=(dict(name='clm'), dict(name='clm'))), False),
        (dict(name='hybrid'), True),
    ],
)
def test_only_a_model_that_was_trained_with_masks_fills_them(model, section, fills):
    """Whatever its attention: `causal=False` does not teach a CLM what a mask is."""
    given = dict(tokenizer=model.tokenizer, length=model.length, steps=1)
    objective = resolve.build('objectives', section, **given)
    network = Network(model.network.encoder, objective)
    for causal in (False, True):
        changed = dataclasses.replace(model, network=network, causal=causal)
        if fills:
            assert changed.fill('the <mask> saw')
        else:
            with pytest.raises(ValueError, match="not trained to predict.*'mntp'"):
                changed.fill('the <mask> saw')


def test_a_mask_without_the_token_that_predicts_it_is_rejected(model):
    shifted = dataclasses.replace(model, shift=1)
    assert shifted.fill('<mask>') and model.fill('<mask>')
    bare = dataclasses.replace(shifted, begin=())
    assert bare.fill('The <mask>')
    with pytest.raises(ValueError, match="'<mask> a' begins with <mask>"):
        bare.fill('<mask> a')


def test_models_of_one_encoder_share_programs_and_no_parameters(model):
    other = dataclasses.replace(model, params=jax.tree.map(lambda x: 2 * x, model.params))
    before = model.encode(['the whale'])
    assert np.abs(other.encode(['the whale']) - before).max() > 1e-3
    assert_array_equal(model.encode(['the whale']), before)
    assert model._encode(2, 'mean') is other._encode(2, 'mean')
    assert model._encode(1, 'mean') is not other._encode(2, 'mean')
