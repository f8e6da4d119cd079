"""Text features of a task for the controls: sparse TF-IDF, or mean input embeddings."""

from collections import Counter

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.evaluation.controls import words
from jepa_text.evaluation.metrics import base
from jepa_text.measures import probes


def tf_idf(task, grams):
    """Returns [(first, second or None)] for train, validation and test: sparse TF-IDF. Of
    a zero-shot task, for the test texts only, over their terms."""
    return _encode_parts(task, vectorizer(fitted(task), grams, task.name).transform)


def fitted(task):
    """Returns the texts that TF-IDF is fitted on; of a Retrieval, its corpus."""
    if task.kind == 'retrieval':
        return list(task.corpus.values())
    return (task.train if len(task.train) else task.test).texts()


def vectorizer(known, grams=1, where='TF-IDF', max_words=None):
    """Returns a scikit-learn TfidfVectorizer, with sublinear counts, fitted on texts.

    Over all `words.terms` of the texts, or the `max_words` that occur in most of them; if
    `grams` is 2, also over word bigrams that occur in at least two texts. Raises
    ValueError, with the place `where`, if no text contains a word.
    """
    text = base.extra('sklearn.feature_extraction.text')
    if not any(map(words.words, known)):
        raise ValueError(f'{where}: no text contains a word, so TF-IDF cannot be fitted.')

    def split(text):
        tokens = words.words(text) if grams == 2 else ()
        return words.terms(text) + [' '.join(pair) for pair in zip(tokens, tokens[1:])]

    counts = Counter(gram for text in known for gram in set(split(text)))
    kept = sorted(gram for gram, count in counts.items() if count > 1 or ' ' not in gram)
    if max_words:
        kept = sorted(sorted(kept, key=lambda gram: -counts[gram])[:max_words])
    options = dict(vocabulary=kept, sublinear_tf=True)
    return text.TfidfVectorizer(analyzer=split, **options).fit(known)


def bags_of_embeddings(task, model):
    """Returns the same as `tf_idf` for the mean input embeddings of a model, dense."""
    return _encode_parts(task, lambda texts: controls.bag_of_embeddings(model, texts))


def _encode_parts(task, encode):
    return [
        (encode(part.first), None if part.second is None else encode(part.second))
        for part in (task.train, task.validation, task.test)
        if len(part)
    ]


def joint_features(task, parts):
    """Returns a feature matrix for each part; for pairs (u, v): u, v, |u - v|, u * v."""
    if task.train.second is None:
        return [first for first, _ in parts]
    if isinstance(parts[0][0], np.ndarray):
        return [probes.pair_features(*pair) for pair in parts]
    from scipy import sparse

    return [
        sparse.hstack(
            [first, second, abs(first - second), first.multiply(second)], format='csr'
        )
        for first, second in parts
    ]


def fit_predict(model, features, target):
    """Fits a scikit-learn model on features[0]; returns predictions for the others."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    # More threads are slower at products of this size.
    with threadpool_limits(1):
        model.fit(features[0], target)
        return [model.predict(part) for part in features[1:]]


def cosine(first, second):
    """Returns [N]: the cosine of each pair of rows."""
    if isinstance(first, np.ndarray):
        return probes.pair_cosine(first, second)
    # TF-IDF rows have length 1.
    return np.asarray(first.multiply(second).sum(axis=1)).ravel()
