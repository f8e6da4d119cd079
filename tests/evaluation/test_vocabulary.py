"""What no row reads is not trained, and ends as if it had been."""

import examined
import jax
import numpy as np
import pytest

from jepa_text.evaluation.members import grid, vocabulary
from jepa_text.evaluation.sets.task import Examples
from jepa_text.kinds import labels, prediction, vectors

MEMBERS = [grid.Member(rate, seed) for rate in (1e-2, 1e-3) for seed in (0, 1)]


def kind_and_rows(name):
    texts = examined.sea_or_land(40)
    if name == 'retrieval':
        kind = vectors.Vectors()
        texts = Examples(texts.first, texts.first[::-1], np.ones(40))
    else:
        kind = labels.Labels(labels=('land', 'sea'))
    return kind, kind.rows(prediction.reader(examined.model()), texts)


@pytest.mark.slow
@pytest.mark.parametrize(
    'name, width, parts', [('labels', 1, 1), ('labels', 3, 1), ('retrieval', 1, 2)]
)
def test_every_parameter_is_as_if_all_had_been_trained(name, width, parts, monkeypatch):
    """With a decay that would be seen; the whole table's way is the plain one."""
    kind, rows = kind_and_rows(name)
    made = grid.Grid(
        examined.model(),
        kind,
        grid.Recipe(steps=12, batch_size=8, weight_decay=0.5, microbatches=parts),
    )
    short = list(made.train(rows, MEMBERS[:3], width))
    monkeypatch.setattr(grid.Grid, '_words', lambda *_: None)
    whole = list(made.train(rows, MEMBERS[:3], width))
    before_VD = np.asarray(examined.model().params['encoder']['embedding'])
    for (_, one, losses_T), (_, other, wanted_T) in zip(short, whole):
        np.testing.assert_allclose(losses_T, wanted_T, atol=1e-5)
        for leaf, wanted in zip(jax.tree.leaves(one), jax.tree.leaves(other)):
            np.testing.assert_allclose(leaf, wanted, atol=1e-6)
        # It did decay, by more than what is compared.
        after_VD = np.asarray(other['encoder']['embedding'])
        assert np.abs(after_VD - before_VD).max(axis=1).min() > 1e-5


def test_a_member_holds_the_tokens_in_use_alone():
    kind, rows = kind_and_rows('labels')
    made = grid.Grid(examined.model(), kind, grid.Recipe(steps=1, batch_size=8))
    words = made._words(rows)
    read = {token for row in rows for token in row.tokens.tolist()}
    assert set(words.used_U.tolist()) == read | {examined.model().tokenizer.pad_id}
    width = examined.model().network.encoder.width
    held = [leaf.shape for leaf in jax.tree.leaves(made._begin(MEMBERS[:1], words))]
    assert held.count((1, len(words.used_U), width)) == 3
    assert not any(examined.model().tokenizer.vocab_size in shape for shape in held)


def test_frozen_and_pure_bfloat16_embeddings_stay_whole():
    kind, rows = kind_and_rows('labels')
    for settings in (dict(layers=1), dict(precision='paper_bf16')):
        recipe = grid.Recipe(steps=1, batch_size=8, **settings)
        assert grid.Grid(examined.model(), kind, recipe)._words(rows) is None


def test_what_decay_leaves():
    factors = np.linspace(0, 1, 7)
    wanted = 1.0
    for factor in factors:
        wanted -= 0.2 * factor * 0.1 * wanted
    assert vocabulary.kept(0.2, factors, 0.1) == pytest.approx(wanted, rel=1e-6)
