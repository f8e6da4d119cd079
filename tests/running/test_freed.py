"""Parameters are freed together with their model."""

import dataclasses
import gc
import weakref

import examined
import jax
import pytest

from jepa_text.analysis import features
from jepa_text.evaluation import identity


@pytest.fixture
def model():
    """One that nothing else holds."""
    return examined.model.__wrapped__(32, 1)


@pytest.mark.slow
def test_a_model_that_was_used_is_freed(model, tmp_path):
    model.encode(['The whale.'])
    model.encode(['The whale.'], layer=0, pool='max')
    model.fill('The <mask>.')
    digest = identity.of(model)
    features.extract(model, ['The whale.', 'The sea.'], tmp_path)
    other = dataclasses.replace(model, causal=True)
    assert identity.of(other) != digest == identity.of(model)
    other.encode(['The whale.'])
    refs = [weakref.ref(each) for each in (model, other)]
    refs += [weakref.ref(leaf) for leaf in jax.tree.leaves(model.params)]
    # The fixture holds it, too.
    object.__setattr__(model, 'params', {})
    del model, other
    gc.collect()
    assert [ref() for ref in refs[1:]] == [None] * (len(refs) - 1)
