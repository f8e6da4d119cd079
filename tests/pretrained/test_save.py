"""Saved models come back to the bit, and never in part."""

import dataclasses
import os
import shutil

import draws
import examined
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_hf_export import imported

from jepa_text.files import atomic
from jepa_text.models import heads
from jepa_text.models.network import Network
from jepa_text.pretrained import labels, load, saved
from jepa_text.settings import resolve

TEXTS = ['the old sea', 'a law of the union']


def of_objective(**section):
    """A model with the head of an objective."""
    model = examined.model()
    given = dict(tokenizer=model.tokenizer, length=model.length, steps=9)
    network = Network(
        model.network.encoder, resolve.build('objectives', section, **given)
    )
    params = {**model.params, 'lm_head': draws.params(lambda: network.init(1))['lm_head']}
    token = network.objective.token_objective
    return dataclasses.replace(
        model,
        network=network,
        params=params,
        causal=token.attends == 'causal',
        shift=token.shift,
    )


MODELS = {
    # As parameters may be that were read or computed in numpy.
    'mlm, in Fortran order': lambda _: jax.tree.map(
        np.asfortranarray, of_objective(name='mlm')
    ),
    'tied': lambda _: of_objective(name='mlm', tied=True),
    'labels of all types': lambda _: examined.with_head(
        examined.model(), labels.Labels(labels=(False, 2, 2.5, 'x'))
    ),
    'pooled': lambda _: dataclasses.replace(
        of_objective(name='mlm'), pool='max', normalize=True, end=(), length=24
    ),
    'bfloat16': lambda _: jax.tree.map(
        lambda x: x.astype(jnp.bfloat16), of_objective(name='mlm')
    ),
    'hf:modernbert': lambda tmp_path: imported(tmp_path, 'modernbert')[0],
    'clm': lambda _: of_objective(name='clm'),
    'mntp': lambda _: of_objective(name='mntp'),
    'hybrid': lambda _: of_objective(name='hybrid'),
    'hf:bert': lambda tmp_path: imported(tmp_path, 'bert')[0],
    'hf:llama_tied': lambda tmp_path: imported(tmp_path, 'llama_tied')[0],
}


def said(model):
    """All that a model says of some texts, or why it says nothing."""

    def call(method, *given):
        try:
            return getattr(model, method)(*given)
        except ValueError as error:
            return str(error).replace(model.name or 'The model', 'NAME')

    texts = [text.replace('a', 'w9') for text in TEXTS]
    return [
        call('encode', texts).tolist(),
        call('fill', 'the <mask> union'),
        call('predict', texts),
    ]


@pytest.mark.parametrize('name', draws.in_stages(*MODELS, fast=2, slow=4))
def test_a_saved_model_is_loaded_to_the_bit(name, tmp_path):
    model = MODELS[name](tmp_path)
    model.save(tmp_path / 'one')
    again = load.load(tmp_path / 'one')
    model.save(tmp_path / 'one')
    again.save(tmp_path / 'two')
    # As text, in which True is not 1.
    assert repr(said(again)) == repr(said(model))
    assert jax.tree.structure(again.params) == jax.tree.structure(model.params)
    jax.tree.map(np.testing.assert_array_equal, again.params, model.params)
    for field in (*saved.READING, 'kind', 'record'):
        assert getattr(again, field) == getattr(model, field)
    assert again.tokenizer.fingerprint == model.tokenizer.fingerprint
    assert load.fingerprint(tmp_path / 'one') == load.fingerprint(tmp_path / 'two')
    outline = load.outline(tmp_path / 'one')
    assert (outline.kind, [*outline.params]) == (model.kind, [*model.params])


def test_a_folder_of_hugging_face_needs_its_prefix(tmp_path):
    with pytest.raises(ValueError, match="is a folder of Hugging Face: write 'hf:"):
        load.load(imported(tmp_path, 'bert')[1])
    # And one of ours takes none.
    examined.model().save(tmp_path / 'ours')
    with pytest.raises(FileNotFoundError, match="loads without 'hf:'"):
        load.load(f'hf:{tmp_path}/ours')
    with pytest.raises(FileNotFoundError, match='`jepa-text export` writes one'):
        load.abstract(tmp_path / 'ours')


def test_what_is_not_a_saved_model_is_not_overwritten(tmp_path):
    model = examined.model()
    model.save(tmp_path / 'run')
    (tmp_path / 'run' / 'notes.txt').write_text('mine')
    (tmp_path / 'file').write_text('mine')
    with pytest.raises(FileExistsError, match='is not overwritten: give another'):
        model.save(tmp_path / 'run')
    with pytest.raises(ValueError, match='is a file, but must be a folder'):
        model.save(tmp_path / 'file')
    assert (tmp_path / 'run' / 'notes.txt').read_text() == 'mine'
    with pytest.raises(ValueError, match='is an address'):
        model.save('s3://bucket/model')
    network = Network(model.network.encoder, model.network.objective)
    network.modules['lm_head'] = heads.DenseHead(9, 64)
    with pytest.raises(ValueError, match='has an LM head of its own'):
        dataclasses.replace(model, network=network).save(tmp_path / 'own')
    assert not (tmp_path / 'own').exists()
    model.save(tmp_path / 'old')
    (tmp_path / 'old' / saved.FILE).rename(tmp_path / 'old' / 'task.json')
    with pytest.raises(ValueError, match='has another name now: call it model.json'):
        load.load(tmp_path / 'old')


@pytest.mark.parametrize('before', [False, True])
def test_a_killed_save_leaves_no_half_model(tmp_path, monkeypatch, before):
    """What is on the disk at every flush and rename, where it could be killed: no model,
    the old or the new one."""
    old, new = examined.model(), jax.tree.map(lambda x: 2 * x, examined.model())
    if before:
        old.save(tmp_path / 'models' / 'mine')
    found = []

    def seen(function):
        def called(*given):
            function(*given)
            copy = shutil.copytree(tmp_path / 'models', tmp_path / f'{len(found)}')
            has_model = (copy / 'mine').exists()
            found.append(said(load.load(copy / 'mine')) if has_model else None)

        return called

    monkeypatch.setattr(atomic, 'flush', seen(atomic.flush))
    monkeypatch.setattr(os, 'rename', seen(os.rename))
    new.save(tmp_path / 'models' / 'mine')
    first = said(old) if before else None
    assert all(one in (None, first, said(new)) for one in found)
    assert found[0] == first and found[-1] == said(new) and len(found) > 5
    # The old one is away for as long as a rename takes.
    assert found.count(None) == 1 or not before
