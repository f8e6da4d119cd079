"""Each form removes what it should, and the summary equals the single measures."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies
from numpy.testing import assert_allclose

from jepa_text.measures import class_geometry, cloud, forms, geometry

RNG = np.random.default_rng(0)
CLOUD_ND = RNG.normal(size=(300, 8)) * np.geomspace(3, 0.1, 8) + 2
LENGTHS_N = RNG.integers(3, 40, 300)
FORMS = ['raw', 'centered', 'whitened', 'length_residualized']


def test_whitened_covariance_is_the_identity_up_to_the_ridge():
    white_NK = forms.whitened(CLOUD_ND, ridge=0)
    assert_allclose(np.cov(white_NK.T), np.eye(8), atol=1e-10)
    variance_D = np.linalg.eigvalsh(np.cov(CLOUD_ND.T))[::-1]
    white_NK = forms.whitened(CLOUD_ND, ridge=0.1)
    expected_D = variance_D / (variance_D + 0.1 * variance_D.mean())
    assert_allclose(np.diag(np.cov(white_NK.T)), expected_D, rtol=1e-10)


def test_whitening_cuts_directions_without_variance():
    flat_ND = np.concatenate([CLOUD_ND, CLOUD_ND[:, :2], np.ones((300, 1))], axis=1)
    assert forms.whitened(flat_ND).shape == (300, 8)
    few_ND = RNG.normal(size=(5, 30))
    assert forms.whitened(few_ND).shape == (5, 4)
    assert not forms.whitened(np.ones((5, 3))).any()


def test_only_what_length_explains_is_removed():
    noise_ND = RNG.normal(size=(300, 4))
    bend_N = np.log(LENGTHS_N) ** 2
    made_ND = noise_ND + np.outer(bend_N, [3.0, -2.0, 1.0, 0.0])
    left_ND = forms.length_residualized(made_ND, LENGTHS_N)
    before = [abs(np.corrcoef(x, bend_N)[0, 1]) for x in made_ND.T[:3]]
    after = [abs(np.corrcoef(x, bend_N)[0, 1]) for x in left_ND.T]
    assert min(before) > 0.7 and max(after) < 0.08
    same = [np.corrcoef(x, y)[0, 1] for x, y in zip(left_ND.T, noise_ND.T)]
    assert min(same) > 0.94
    assert_allclose(left_ND.mean(axis=0), made_ND.mean(axis=0), atol=0.1)


@pytest.mark.parametrize('lengths_N', [RNG.integers(3, 200, 400), np.full(400, 25)])
def test_cross_fitting_removes_no_variance_from_noise(lengths_N):
    noise_ND = RNG.normal(size=(400, 30))
    left_ND = forms.length_residualized(noise_ND, lengths_N)
    share = left_ND.var(axis=0).mean() / noise_ND.var(axis=0).mean()
    assert 1 < share < 1.1


def test_two_lengths_are_both_controlled():
    tokens_N, letters_N = LENGTHS_N, RNG.integers(10, 300, 300)
    made_ND = np.stack([np.log(tokens_N), np.sqrt(letters_N), RNG.normal(size=300)], 1)
    one_ND = forms.length_residualized(made_ND, tokens_N)
    two_ND = forms.length_residualized(made_ND, np.stack([tokens_N, letters_N], axis=1))
    scale_D = made_ND.std(axis=0)
    assert one_ND[:, 0].std() < 0.05 * scale_D[0]
    assert one_ND[:, 1].std() > 0.9 * scale_D[1]
    assert np.all(two_ND.std(axis=0)[:2] < 0.1 * scale_D[:2])


@pytest.mark.parametrize('labels_N', [None, np.arange(300) % 3])
def test_the_summary_equals_each_measure_of_each_form(labels_N):
    found = forms.summary(CLOUD_ND, LENGTHS_N, labels_N)
    metrics = dict(geometry.METRICS)
    if labels_N is not None:
        metrics |= class_geometry.CLASS_METRICS
    parts = dict(forms.clouds(CLOUD_ND, LENGTHS_N))
    assert list(parts) == FORMS
    assert len(found) == 4 * len(metrics)
    for form, rows in parts.items():
        alone = cloud.as_cloud(rows.rows_ND, labels_N)
        for name, measure in metrics.items():
            # Derived spectra against those of the rows themselves.
            expected = pytest.approx(measure(alone), rel=1e-6, abs=1e-7)
            assert found[f'{name}/{form}'] == expected, (name, form)


@hypothesis.settings(max_examples=15, deadline=None, derandomize=True)
@hypothesis.given(
    rows=strategies.integers(6, 60),
    width=strategies.integers(2, 20),
    decay=strategies.floats(0, 2),
    scale=strategies.floats(1e-4, 1e4),
    seed=strategies.integers(0, 99),
)
def test_the_summary_is_invariant_to_rotation_and_scale(rows, width, decay, scale, seed):
    rng = np.random.default_rng(seed)
    rows_ND = rng.normal(size=(rows, width)) * np.arange(1.0, width + 1) ** -decay + 0.3
    lengths_N = rng.integers(1, 50, rows)
    rotation_DD = np.linalg.qr(rng.normal(size=(width, width)))[0]
    second = forms.summary(scale * rows_ND @ rotation_DD, lengths_N)
    for name, value in forms.summary(rows_ND, lengths_N).items():
        # Whitened rows of fewer texts than dimensions are equidistant: there are ties.
        if rows > 2 * width or not name.endswith('whitened'):
            near = 1e-6 if name.endswith('raw') else 1e-5
            assert second[name] == pytest.approx(value, rel=near, abs=near), name


@pytest.mark.parametrize('rows_ND', [np.ones((6, 3)), np.zeros((6, 3))])
def test_a_cloud_without_variance_has_values_in_every_form(rows_ND):
    found = forms.summary(rows_ND, np.arange(1, 7), np.arange(6) % 2)
    odd = {name for name, value in found.items() if not np.isfinite(value)}
    assert odd <= {f'distance_ratio/{form}' for form in FORMS}
    assert found['effective_rank/whitened'] == 0


@pytest.mark.parametrize(
    'lengths, message',
    [
        ([3] * 299, r'300 vectors .*\(299, 1\)'),
        ([0] + [3] * 299, 'minimum 0'),
        ([np.nan] + [3.0] * 299, 'positive'),
    ],
)
def test_lengths_must_be_positive_and_match(lengths, message):
    with pytest.raises(ValueError, match=message):
        forms.length_residualized(CLOUD_ND, lengths)
