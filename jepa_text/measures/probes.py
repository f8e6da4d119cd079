"""Linear probes of frozen embeddings, and the features of text pairs that they use."""

import math
import warnings

import numpy as np

from jepa_text.files import extras
from jepa_text.measures import statistics

INVERSE_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # C of scikit-learn
# Multiplied by N: with standardized features the scatter's mean eigenvalue is N.
RIDGE_PENALTIES = np.array([1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0])
_TINY = np.finfo(np.float64).tiny
_VALIDATION = 0.2  # the share of the training set on which the penalty is chosen


def linear_probe(train_ND, train_labels_N, test_ND, test_labels_N, seed=0):
    """Multinomial logistic regression on standardized embeddings, scored on the test set.

    Embeddings are standardized by the training set. The L2 penalty of
    `INVERSE_PENALTIES` with the highest likelihood (more stable than the accuracy) on a
    stratified fifth of the training set is used to fit all of it: nothing is chosen on
    the test set. Labels may be strings or integers. Returns a dict:

        accuracy          on the test set; labels that are not in the training set count
                          as wrong
        low, high         its 95 % interval over test examples (Wilson 1927), too narrow
                          if these are dependent, such as paragraphs of one book
        balanced          the mean accuracy over classes
        inverse_penalty   the chosen one
        predicted         the predicted labels of the test set

    Raises ValueError for sizes that do not match, NaN, an empty set or a single class,
    and ImportError without scikit-learn.

    >>> rows_ND, labels = np.array([[1.0], [2.0], [8.0], [9.0]] * 5), list('aabb') * 5
    >>> linear_probe(rows_ND, labels, rows_ND, labels)['accuracy']
    1.0
    """
    train_ND, train_labels_N = _checked('training', train_ND, train_labels_N)
    test_ND, test_labels_N = _checked('test', test_ND, test_labels_N)
    if train_ND.shape[1] != test_ND.shape[1]:
        raise ValueError(
            f'Training embeddings have width {train_ND.shape[1]} and test embeddings '
            f'{test_ND.shape[1]}. Take both from the same model and layer.'
        )
    classes, target_N = _classes(train_labels_N, test_labels_N)
    train_ND, test_ND = standardized([train_ND, test_ND])
    inverse = _choose(train_ND, target_N, held_out(target_N, seed))
    predicted_N = classes[_fit(train_ND, target_N, inverse).predict(test_ND)]
    right_N = predicted_N == test_labels_N
    accuracy, low, high = statistics.mean_interval(right_N, 'share')
    return {
        'accuracy': accuracy,
        'balanced': balanced_accuracy(right_N, test_labels_N)['balanced'],
        'low': low,
        'high': high,
        'inverse_penalty': inverse,
        'predicted': predicted_N.tolist(),
    }


def ridge(train_ND, targets_NT):
    """Returns ridge regression of standardized embeddings on targets of equal variance,
    fitted: the penalty with the least error, leaving one row out in turn."""
    linear_model = extras.package('sklearn.linear_model', 'eval', 'A linear probe')
    from sklearn import compose, pipeline, preprocessing

    scale = preprocessing.StandardScaler
    model = linear_model.RidgeCV(RIDGE_PENALTIES * len(train_ND))
    model = compose.TransformedTargetRegressor(model, transformer=scale())
    return pipeline.make_pipeline(scale(), model).fit(train_ND, targets_NT)


def balanced_accuracy(right_N, truth_N, clusters=()):
    """Returns the mean over the classes of `truth_N` of the share of correct predictions.

    A dict with `balanced`, which is 1 / classes for any prediction that ignores the
    input, however imbalanced the classes are, and `low` and `high`, its 95 % interval:
    the margins of the classes' shares (statistics.mean_interval) are added in squares
    (Zou & Donner 2008), and widened for examples with a key in common, as in
    statistics.variance. Raises ValueError for shapes that differ.

    >>> balanced_accuracy([True, True, True, False], ['a', 'a', 'a', 'b'])['balanced']
    0.5
    """
    right_N, truth_N = np.asarray(right_N, bool), np.asarray(truth_N)
    if right_N.shape != truth_N.shape or not right_N.size:
        raise ValueError(
            'Balanced accuracy needs one prediction per label, but the shapes are '
            f'{right_N.shape} and {truth_N.shape}.'
        )
    class_N = np.unique(truth_N, return_inverse=True)[1]
    size_C = np.bincount(class_N)
    classes = range(len(size_C))
    each = [statistics.mean_interval(right_N[class_N == c], 'share') for c in classes]
    share_C, low_C, high_C = np.array(each).T
    error_N = (right_N - share_C[class_N]) / size_C[class_N]
    spreads = (statistics.variance(error_N, keys)[0] for keys in (clusters, ()))
    widening = math.sqrt(np.divide(*spreads)) if error_N.any() else 1.0
    value = float(share_C.mean())
    below, above = (
        widening * float(np.linalg.norm(end_C - share_C)) / len(size_C)
        for end_C in (low_C, high_C)
    )
    return {'balanced': value, 'low': value - below, 'high': value + above}


def held_out(labels_N, seed=0):
    """Returns [N]: the examples of a stratified fifth, which choose the penalty; none of
    a class with fewer than five.

    >>> held_out(list('aaaaab')).sum().item()
    1
    """
    labels_N, rng = np.asarray(labels_N), np.random.default_rng(seed)
    held_N = np.zeros(len(labels_N), bool)
    for label in np.unique(labels_N):
        members = rng.permutation(np.flatnonzero(labels_N == label))
        held_N[members[: int(_VALIDATION * len(members))]] = True
    return held_N


def pair_features(first_ND, second_ND):
    """Returns [N, 4 D], the features u, v, |u - v|, u v of each pair, for a linear probe.

    After InferSent (Conneau et al. 2017).

    >>> pair_features(np.uint8([[1]]), np.uint8([[3]])).tolist()
    [[1.0, 3.0, 2.0, 3.0]]
    """
    first_ND, second_ND = _pairs(first_ND, second_ND)
    parts = (first_ND, second_ND, np.abs(first_ND - second_ND), first_ND * second_ND)
    return np.concatenate(parts, axis=1)


def pair_cosine(first_ND, second_ND):
    """Returns cos(u, v) of each pair, float64, without any training; 0 for a zero row.

    >>> pair_cosine(np.array([[2.0, 0.0]]), np.array([[1.0, 0.0]])).tolist()
    [1.0]
    """
    first_ND, second_ND = (x.astype(float) for x in _pairs(first_ND, second_ND))
    norms_N = np.linalg.norm(first_ND, axis=1) * np.linalg.norm(second_ND, axis=1)
    products_N = np.einsum('ND,ND->N', first_ND, second_ND)
    return products_N / np.where(norms_N > 0, norms_N, 1.0)


def _pairs(first_ND, second_ND):
    first_ND, second_ND = np.asarray(first_ND), np.asarray(second_ND)
    if first_ND.shape != second_ND.shape:
        raise ValueError(
            'Pairs need vectors of the same shape, but the shapes are '
            f'{first_ND.shape} and {second_ND.shape}.'
        )
    # At least float32: differences and products of int8 would wrap around.
    kind = np.result_type(first_ND, second_ND, np.float32)
    return first_ND.astype(kind, copy=False), second_ND.astype(kind, copy=False)


def _checked(which, embeddings_ND, labels_N):
    embeddings_ND = np.asarray(embeddings_ND).astype(np.float64)
    labels_N = np.asarray(labels_N)
    if embeddings_ND.ndim != 2 or labels_N.shape != embeddings_ND.shape[:1]:
        raise ValueError(
            f'The {which} set needs embeddings [N, D] and N labels, but the shapes are '
            f'{embeddings_ND.shape} and {labels_N.shape}.'
        )
    if not embeddings_ND.size:
        raise ValueError(f'The {which} set is empty; a probe needs examples.')
    if not np.isfinite(embeddings_ND).all():
        raise ValueError(
            f'The {which} embeddings contain NaN or infinity. Check the model before '
            'probing it.'
        )
    return embeddings_ND, labels_N


def _classes(train_labels_N, test_labels_N):
    """Returns the classes of the training set, sorted, and the number of each label's."""
    classes, target_N = np.unique(train_labels_N, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f'All {len(train_labels_N)} training labels are {classes.tolist()[0]!r}, but '
            'a probe needs at least two classes. Choose another label or more documents.'
        )
    sides = train_labels_N, test_labels_N
    kinds = ['strings' if isinstance(side[0], str) else 'numbers' for side in sides]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f'Training labels are {kinds[0]}, test labels {kinds[1]}: no label is equal. '
            'Convert one of the two.'
        )
    return classes, target_N


def standardized(parts):
    """Returns the parts, [N, D], standardized by the first, the training part."""
    mean_D, deviation_D = parts[0].mean(axis=0), parts[0].std(axis=0)
    # A constant stays constant: its deviation is 0, up to rounding.
    rounding_D = np.finfo(mean_D.dtype).eps * len(parts[0]) * abs(mean_D)
    scale_D = np.where(deviation_D > rounding_D, deviation_D, 1.0)
    return [(part - mean_D) / scale_D for part in parts]


def _choose(train_ND, target_N, held_N):
    if not held_N.any():
        # All classes have fewer than five examples.
        return INVERSE_PENALTIES[len(INVERSE_PENALTIES) // 2]
    scores = []
    for inverse in INVERSE_PENALTIES:
        model = _fit(train_ND[~held_N], target_N[~held_N], inverse)
        # The fitted part has all classes, so column c is class c. With a weak penalty
        # the probability of the true class may be 0 in float64.
        share_NC = np.maximum(model.predict_proba(train_ND[held_N]), _TINY)
        share_N1 = np.take_along_axis(share_NC, target_N[held_N][:, None], axis=1)
        scores.append(np.log(share_N1).mean())
    # Of equals argmax returns the first, the strongest penalty.
    return INVERSE_PENALTIES[int(np.argmax(scores))]


def _fit(train_ND, target_N, inverse):
    linear_model = extras.package('sklearn.linear_model', 'eval', 'A linear probe')
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # a dependency of scikit-learn

    model = linear_model.LogisticRegression(
        C=inverse, solver='lbfgs', tol=1e-3, max_iter=200
    )
    # The products are many and small: threads cost more time than they save, up to 50
    # times more if other processes use the cores.
    with threadpool_limits(1), warnings.catch_warnings():
        # Stopping early only has the effect of a slightly stronger penalty.
        warnings.simplefilter('ignore', ConvergenceWarning)
        return model.fit(train_ND, target_N)
