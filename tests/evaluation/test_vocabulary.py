"""Training only used embedding rows, with the same result as training all."""

import examined
import jax
import numpy as np
import pytest

from jepa_text.evaluation.members import grid
from jepa_text.evaluation.sets.task import Examples
from jepa_text.pretrained import labels, prediction

MEMBERS = [grid.Member(rate, seed) for rate in (1e-2, 1e-3) for seed in (0, 1)]


def kind_and_rows(name):
    texts = examined.sea_or_land(40)
    if name == 'retrieval':
        kind = labels.Vectors()
        texts = Examples(texts.first, texts.first[::-1], np.ones(40))
    else:
        kind = labels.Labels(labels=('land', 'sea'))
    return kind, kind.rows(prediction.reader(examined.model()), texts)


@pytest.mark.slow
@pytest.mark.parametrize(
    'name, width, parts', [('labels', 1, 1), ('labels', 3, 1), ('retrieval', 1, 2)]
)
def test_parameters_equal_those_of_training_the_whole_table(
    name, width, parts, monkeypatch
):
    """With a decay large enough to matter, against training the whole table."""
    kind, rows = kind_and_rows(name)
    made = grid.Grid(
        examined.model(),
        kind,
        grid.Recipe(steps=12, batch_size=8, weight_decay=0.5, microbatches=parts),
    )
    members = MEMBERS[:3]
    if name == 'retrieval':  # At a rate of 0.01 it is unstable: rounding errors grow.
        members = [*MEMBERS[2:], grid.Member(5e-4, 0)]
    short = list(made.train(rows, members, width))
    monkeypatch.setattr(grid.Grid, '_used_tokens', lambda *_: None)
    whole = list(made.train(rows, members, width))
    before_VD = np.asarray(examined.model().params['encoder']['embedding'])
    for (_, one, losses_T), (_, other, wanted_T) in zip(short, whole):
        np.testing.assert_allclose(losses_T, wanted_T, atol=1e-5)
        for leaf, wanted in zip(jax.tree.leaves(one), jax.tree.leaves(other)):
            np.testing.assert_allclose(leaf, wanted, atol=1e-6)
        # Unused rows decayed by more than the tolerance.
        after_VD = np.asarray(other['encoder']['embedding'])
        assert np.abs(after_VD - before_VD).max(axis=1).min() > 1e-5


def test_a_member_trains_only_used_tokens():
    kind, rows = kind_and_rows('labels')
    made = grid.Grid(examined.model(), kind, grid.Recipe(steps=1, batch_size=8))
    words = made._used_tokens(rows)
    read = {token for row in rows for token in row.tokens.tolist()}
    assert set(words.used_U.tolist()) == read | {examined.model().tokenizer.pad_id}
    width = examined.model().network.encoder.width
    held = [leaf.shape for leaf in jax.tree.leaves(made._fresh(MEMBERS[:1], words))]
    assert held.count((1, len(words.used_U), width)) == 3
    assert not any(examined.model().tokenizer.vocab_size in shape for shape in held)


def test_pure_bfloat16_embeddings_use_the_whole_table():
    kind, rows = kind_and_rows('labels')
    recipe = grid.Recipe(steps=1, batch_size=8, precision='paper_bf16')
    assert grid.Grid(examined.model(), kind, recipe)._used_tokens(rows) is None


def test_the_decay_factor_of_unused_tokens():
    factors = np.linspace(0, 1, 7)
    wanted = 1.0
    for factor in factors:
        wanted -= 0.2 * factor * 0.1 * wanted
    assert grid.decay_factor(0.2, factors, 0.1) == pytest.approx(wanted, rel=1e-6)
