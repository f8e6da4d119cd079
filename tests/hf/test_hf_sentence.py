"""`encode`, the exported pooling and sentence-transformers compute the same vectors."""

import dataclasses
import functools

import hf_cases
import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_hf_export import imported
from test_hf_export import trained as made

from jepa_text.analysis import features
from jepa_text.pretrained import export
from jepa_text.pretrained import load as loading

# One text is longer than a row.
pytestmark = pytest.mark.filterwarnings('ignore:.*are longer than:UserWarning')

LONG = 'My fellow Americans: the state of the Union is strong, and the whale is white. '
TEXTS = [
    'I',
    'Call me Ishmael.',
    LONG,
    3 * LONG,  # truncated
    'It says <mask>, </s> and <eos><pad> <bos>.',
    'Æther, 龍 and\n\na  tab\t!',
]


@functools.cache
def trained(objective='mlm', **changes):
    """A model whose layers have an effect, but do not amplify rounding errors."""
    model = made(objective, **changes)
    params = jax.tree.map(lambda x: x / 3 if x.ndim > 1 else x, model.params)
    return dataclasses.replace(model, params=params)


@pytest.mark.slow
def test_pooling_without_special_tokens_is_not_exported(tmp_path):
    model = trained()
    found = model.encode(TEXTS, pool='mean-specials')
    assert np.abs(found - model.encode(TEXTS)).max() > 0.1
    row = model.row(TEXTS[0])
    hidden = jax.jit(lambda p, *x: model.network.apply('encoder', p, *x, causal=False))
    states = np.asarray(hidden(model.params, *model.pad([row], 1))[0])
    assert_allclose(found[0], states[1 : len(row) - 1].mean(0), atol=1e-5)
    asked = dataclasses.replace(model, pool='mean-specials')
    assert_allclose(asked.encode(TEXTS), found, atol=0)
    with pytest.raises(ValueError, match='sentence-transformers, which counts every'):
        export.write(asked, tmp_path / 'out')
    assert not (tmp_path / 'out').exists()


def test_cls_pooling_needs_a_special_first_token(tmp_path):
    """It does not use the first token of the text if there is no special token."""
    model = trained()
    first = model.encode(['Call', 'whale'], layer=0, pool='cls')
    begin_D = np.asarray(model.params['encoder']['embedding'])[model.tokenizer.bos_id]
    assert_allclose(first, np.stack([begin_D, begin_D]), atol=1e-6)
    bare = dataclasses.replace(model, begin=(), pool='cls')
    for refused in (
        lambda: bare.encode(TEXTS),
        lambda: bare.encode(TEXTS, pool='cls'),
        lambda: export.write(bare, tmp_path / 'out'),
        lambda: features.extract(bare, TEXTS, tmp_path, ('mean', 'cls')),
    ):
        with pytest.raises(ValueError, match="pool='cls': .* tokenizer does not add"):
            refused()


def test_pooling_without_special_tokens_needs_other_tokens(tmp_path):
    """For example, if an unknown word becomes a special token."""
    model, _ = imported(tmp_path, 'bert')
    specials = (*model.tokenizer.special_ids, 9)
    tokenizer = dataclasses.replace(model.tokenizer, special_ids=specials)
    model = dataclasses.replace(model, tokenizer=tokenizer)
    assert model.encode(['w7', 'w9']).shape == (2, 32)
    for refused in (
        lambda: model.encode(['w7', 'w9'], pool='mean-specials'),
        lambda: features.extract(model, ['w7', 'w9'], tmp_path, ('mean-specials',)),
    ):
        with pytest.raises(ValueError, match="'mean-specials': text 1 has only special"):
            refused()


@pytest.mark.peer
@pytest.mark.parametrize('reads', [{}, dict(causal=True, shift=1)])
@pytest.mark.parametrize('pool', ['mean', 'cls', 'max', 'last', 'position'])
def test_sentence_transformers_computes_the_same_vectors(tmp_path, pool, reads):
    library = pytest.importorskip('sentence_transformers')
    changes = dict(pool=pool, normalize=pool == 'last', **reads)
    model = dataclasses.replace(trained('clm' if reads else 'mlm'), **changes)
    export.write(model, tmp_path / 'out')
    other = library.SentenceTransformer(str(tmp_path / 'out'), device='cpu')
    texts = [*TEXTS, *(' '.join(LONG.split()[:n]) for n in range(1, 15))]
    assert_allclose(other.encode(texts), model.encode(texts), atol=1e-5)


@pytest.mark.peer
@pytest.mark.parametrize('pool', ['mean', 'cls', 'max', 'lasttoken', 'weightedmean'])
@pytest.mark.parametrize('case', ['bert', 'roberta', 'modernbert', 'qwen3', 'eurobert'])
def test_sentence_transformers_folders_give_the_same_vectors(tmp_path, case, pool):
    """As it saves them, with a length that only the tokenizer config contains."""
    library = pytest.importorskip('sentence_transformers')
    modules = library.sentence_transformer.modules
    _, source = imported(tmp_path, case)
    hf_cases.add_template(source)
    parts = [modules.Transformer(str(source), processor_kwargs=dict(model_max_length=9))]
    parts.append(modules.Pooling(parts[0].get_embedding_dimension(), pool))
    other = library.SentenceTransformer(modules=parts, device='cpu')
    other.save(str(tmp_path / 'saved'))
    model = loading.load(f'hf:{tmp_path / "saved"}')
    texts = [' '.join(f'w{5 + (3 * i) % 30}' for i in range(n)) for n in range(1, 14)]
    assert_allclose(model.encode(texts), other.encode(texts), atol=1e-5)
