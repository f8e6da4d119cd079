"""Ridge regression against scikit-learn, and how its penalty is chosen."""

import numpy as np
import pytest
from sklearn import linear_model

from jepa_text.measures import ridge

RNG = np.random.default_rng(0)
ROWS_ND = RNG.normal(size=(120, 10)) * np.geomspace(5, 0.1, 10) + 4
WEIGHTS_DT = RNG.normal(size=(10, 3))
TARGETS_NT = ROWS_ND @ WEIGHTS_DT + RNG.normal(size=(120, 3))


@pytest.mark.parametrize('width', [10, 300])
@pytest.mark.parametrize('share', [1e-3, 1.0])
def test_predictions_match_scikit_learn(width, share):
    rows_ND = np.concatenate([ROWS_ND, RNG.normal(size=(120, width - 10))], axis=1)
    standard_ND = (rows_ND - rows_ND.mean(axis=0)) / rows_ND.std(axis=0)
    theirs = linear_model.Ridge(alpha=share * 120).fit(standard_ND, TARGETS_NT)
    ours = ridge.fit(rows_ND, TARGETS_NT, penalties=(share,))
    expected = theirs.predict(standard_ND)
    np.testing.assert_allclose(ours.predict(rows_ND), expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.deviation_T, expected.std(axis=0), rtol=1e-8)


def test_the_penalty_minimizes_the_gcv_error():
    standard_ND = (ROWS_ND - ROWS_ND.mean(axis=0)) / ROWS_ND.std(axis=0)
    target_NT = TARGETS_NT - TARGETS_NT.mean(axis=0)
    errors = []
    for share in ridge.PENALTIES:
        gram_DD = standard_ND.T @ standard_ND + share * 120 * np.eye(10)
        hat_NN = standard_ND @ np.linalg.solve(gram_DD, standard_ND.T)
        left_T = np.sum((target_NT - hat_NN @ target_NT) ** 2, axis=0)
        freedom = 120 - 1 - np.trace(hat_NN)
        errors.append(np.sum(left_T / target_NT.var(axis=0)) / freedom**2)
    best = ridge.PENALTIES[int(np.argmin(errors))]
    assert ridge.fit(ROWS_ND, TARGETS_NT).penalty == best


def test_constant_features_and_targets_are_allowed():
    rows_ND = np.concatenate([ROWS_ND, np.full((120, 1), 3.0)], axis=1)
    targets_NT = np.concatenate([TARGETS_NT, np.full((120, 1), 2.0)], axis=1)
    found = ridge.fit(rows_ND, targets_NT).predict(rows_ND)
    np.testing.assert_allclose(found[:, 3], 2.0)
    expected = ridge.fit(ROWS_ND, TARGETS_NT).predict(ROWS_ND)
    np.testing.assert_allclose(found[:, :3], expected, rtol=1e-8)


def test_errors_name_what_is_wrong():
    with pytest.raises(ValueError, match=r'120 embeddings .*\(119, 3\)'):
        ridge.fit(ROWS_ND, TARGETS_NT[1:])
    with pytest.raises(ValueError, match='targets .* NaN'):
        ridge.fit(ROWS_ND, TARGETS_NT * np.nan)
