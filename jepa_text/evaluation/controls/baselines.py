"""Controls of a task as members of its grid: predictions without a pretrained model.

kind      control
labels    the largest class; logistic regression on TF-IDF or on a model's bag of
          embeddings
scores    of pairs, the cosine of TF-IDF and of the bag; of texts, ridge regression on
          both
tags      a word's most frequent tag; for unknown words that of words with the same ending
spans     never an answer; the sentence that shares most words with the question
cloze     the most frequent answer, among the candidates if there are any
retrieval TF-IDF, BM25, and a model's bag of embeddings (ranking.py)

Each control is fitted on `train`, its hyperparameters are selected on `validation`, and
its predictions are measured by the same metrics as those of models. Zero-shot tasks have
the controls that need no training, fitted on the texts that are scored: the most frequent
answer is then the best constant prediction. Controls read the texts of the task as given.
"""

import dataclasses
import functools
import re
import time
import warnings
from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from jepa_text.evaluation import controls, identity
from jepa_text.evaluation.controls import features as word_features
from jepa_text.evaluation.controls import ranking as word_ranking
from jepa_text.evaluation.controls import words
from jepa_text.evaluation.metrics import answers as metrics
from jepa_text.evaluation.metrics import base, spans
from jepa_text.evaluation.sets import task as tasks
from jepa_text.measures import probes

COMMONEST, NEVER, SENTENCE = 'commonest tag', 'never an answer', 'sentence of most words'
ANSWER = 'commonest answer'
INVERSE_PENALTIES = (1.0, 10.0, 100.0)  # C of scikit-learn
PENALTIES = (0.1, 1.0, 10.0)  # of ridge regression
_GRID = (1, INVERSE_PENALTIES), (2, INVERSE_PENALTIES)  # (words of a gram, C)
_TINY = 1e-12
_SUFFIX = 3  # letters of a word's ending
_RARE = 5  # training words of at most this count stand for unknown words


class Predictions(NamedTuple):
    """A control's predictions and the hyperparameters chosen on the validation set."""

    validation: list
    test: list
    chosen: dict


def names(task, first=True):
    """Returns the names of a model's controls on a task. BAG alone needs a model; the
    others belong to the `first` of an evaluation. Those of words are left out, with a
    warning, if no text that they would be fitted on has a word."""
    known = _CONTROLS.get(task.kind, ())
    chosen = [name for name in known if first or name == controls.BAG]
    lexical = [name for name in chosen if name in word_ranking.CONTROLS]
    if lexical and not any(map(words.words, word_features.fitted(task))):
        warnings.warn(
            f'{task.name}: no text contains a word, so there is no control '
            f'{" or ".join(lexical)}.',
            stacklevel=2,
        )
        chosen = [name for name in chosen if name not in lexical]
    return tuple(chosen)


def predict(task, control, model=None):
    """Returns the Predictions of a control of a task that has a validation set; `model`,
    a load.Pretrained, is needed for the bag of embeddings only."""
    return _CONTROLS[task.kind][control](task, model)


def probe(task, seed=0):
    """Returns (answers, cosines): the TF-IDF control of `predict` for the test set of a
    task without a validation set.

    Of classes, as text, with the hyperparameters that are best on `probes.held_out` of
    the training set, fitted on all of it, and None; or of scores of pairs, [N], and the
    cosines of the pairs.
    """
    whole = dataclasses.replace(task, validation=task.train)
    if task.kind == 'scores':
        near = dataclasses.replace(whole, zero_shot=True)
        cosines = predict(near, controls.TF_IDF).test
        parts = word_features.joint_features(task, word_features.tf_idf(whole, 1))
        # |u - v| and u * v, as for vectors.
        train, _, test = (part[:, part.shape[1] // 2 :] for part in parts)
        ridge = base.extra('sklearn.linear_model').RidgeCV(PENALTIES)
        answers = word_features.fit_predict(ridge, [train, test], task.train.target)
        return answers[0], np.array(cosines)
    held_N, grid = probes.held_out(task.train.target, seed), _GRID[:1]
    if held_N.any():
        sides = (task.train.take(np.flatnonzero(side_N)) for side_N in (~held_N, held_N))
        part = dataclasses.replace(task, **dict(zip(('train', 'validation'), sides)))
        chosen = predict(part, controls.TF_IDF).chosen
        grid = [(chosen['words'], [chosen['C']])]
    return np.array(_tf_idf_classes(whole, None, grid).test), None


def members(task, settings, chosen, model=None):
    """Yields (config, outcome, per_instance, predictions) of each `chosen` control, for
    result_files.write.

    `settings` are the remaining fields of a config, such as data_revision. Controls are
    deterministic, so their learning rate and seed are 0.
    """
    began, runs = time.monotonic(), {}
    if task.kind == 'retrieval':
        made = word_ranking.predictions(task, chosen, model)
        runs = {name: Predictions(*sides, {}) for name, sides in made.items()}
    for control in chosen:
        predicted = runs.get(control) or predict(task, control, model)
        test = validation = measure(task, 'test', predicted.test)
        if not task.zero_shot:
            validation = measure(task, 'validation', predicted.validation)
        outcome = {
            'status': 'done',
            'validation': validation.by_mode,
            'test': test.by_mode,
            'losses': [],
            'seconds': round(time.monotonic() - began, 3),
            'versions': identity.versions(),
        }
        of_model = control == controls.BAG
        config = settings | {
            'model': f'{settings["model"]}, {control}' if of_model else control,
            'model_revision': settings['model_revision'] if of_model else control,
            'control': control,
            'learning_rate': 0.0,
            'seed': 0,
            'steps': 0,
            'chosen': predicted.chosen,
        }
        yield config, outcome, test.per_instance, predicted.test
        began = time.monotonic()


def measure(task, split, answers):
    """Returns the Measured of a control's predictions on 'validation' or 'test': spans by
    the standard definitions only, as predictions are text, not tokens."""
    if task.kind == 'retrieval':
        target = task.qrels if split == 'test' else task.validation_qrels
    else:
        target = getattr(task, split).target
    labels = tasks.classes(task) if task.kind == 'labels' else ()
    if task.kind == 'tags':
        parts = task.train, task.validation, task.test
        labels = {tag for part in parts for tags in part.target for tag in tags}
    return metrics.measure(task.kind, target, answers, labels)


def _of_both(task, answers_of, **chosen):
    """Returns the Predictions answers_of(part) of the validation and the test set."""
    return Predictions(*map(answers_of, (task.validation, task.test)), chosen)


def _constant(task, answer):
    return _of_both(task, lambda part: [answer] * len(part))


def _commonest(counts, items=()):
    """Returns the most frequent of the items (default: all); of ties, the smallest."""
    return min(items or counts, key=lambda item: (-counts[item], item))


def _tf_idf_classes(task, model, grid=_GRID):
    fits = []
    for grams, penalties in grid:
        features = word_features.joint_features(task, word_features.tf_idf(task, grams))
        fits += _logistic_fits(task, features, penalties, words=grams)
    return _likeliest(fits)


def _bag_classes(task, model):
    bags = word_features.bags_of_embeddings(task, model)
    features = probes.standardized(word_features.joint_features(task, bags))
    return _likeliest(_logistic_fits(task, features, probes.INVERSE_PENALTIES))


def _likeliest(fits):
    """Returns the Predictions under which validation labels are likeliest, which is less
    noisy than the accuracy."""
    return max(fits, key=lambda fit: fit[0])[1]


def _logistic_fits(task, features, penalties, **chosen):
    """Yields (log-likelihood of the validation labels, Predictions) of each penalty."""
    linear_model = base.extra('sklearn.linear_model')
    target = [list(map(str, part.target)) for part in (task.train, task.validation)]
    for inverse in penalties:
        model = linear_model.LogisticRegression(C=inverse, max_iter=3000)
        answers = word_features.fit_predict(model, features, target[0])
        index_of = {label: index for index, label in enumerate(model.classes_)}
        # A label that is missing from the training set has probability 0.
        probability_N = [
            row_C[index_of[label]] if label in index_of else 0.0
            for row_C, label in zip(model.predict_proba(features[1]), target[1])
        ]
        likelihood = float(np.mean(np.log(np.maximum(probability_N, _TINY))))
        answers = (predicted_N.tolist() for predicted_N in answers)
        yield likelihood, Predictions(*answers, {'C': inverse, **chosen})


def _tf_idf_scores(task, model):
    return _scores(task, word_features.tf_idf(task, 1))


def _bag_scores(task, model):
    bags = word_features.bags_of_embeddings(task, model)
    return _scores(task, bags, probes.standardized)


def _scores(task, parts, prepare=list):
    """Returns the cosines of pairs, or of texts a regression on the prepared features."""
    if task.test.second is not None:
        sign = 1.0
        if not task.zero_shot:  # the scores may be distances
            near_N = word_features.cosine(*parts[0])
            fit = metrics.scores(task.train.target, near_N).standard['spearman']
            sign = -1.0 if fit < 0 else 1.0
        cosines = (sign * word_features.cosine(*part) for part in parts[-2:])
        answers = [[], *(cosine_N.tolist() for cosine_N in cosines)]
        return Predictions(*answers[-2:], {'sign': sign})
    features, fits = prepare([first for first, _ in parts]), []
    for penalty in PENALTIES:
        ridge = base.extra('sklearn.linear_model').Ridge(penalty)
        answers = word_features.fit_predict(ridge, features, task.train.target)
        score = metrics.scores(task.validation.target, answers[0]).standard
        fits.append((score['spearman'], penalty, answers))
    _, penalty, answers = max(fits, key=lambda fit: fit[0])
    return Predictions(*(x.tolist() for x in answers), {'penalty': penalty})


def _commonest_tag(task, model):
    counts = Counter(word for sentence in task.train.first for word in sentence)
    seen = defaultdict(Counter)
    for sentence, target in zip(task.train.first, task.train.target):
        for word, tag in zip(sentence, target):
            seen[word][tag] += 1
            seen['lower', word.lower()][tag] += 1
            seen['all',][tag] += 1
            if counts[word] <= _RARE:
                seen[_ending(word)][tag] += 1
    known = {key: _commonest(tags) for key, tags in seen.items()}

    def tag_of(word):
        keys = (word, ('lower', word.lower()), _ending(word), ('all',))
        return next(known[key] for key in keys if key in known)

    return _of_both(task, lambda part: [list(map(tag_of, one)) for one in part.first])


def _commonest_answer(task, model):
    counts = Counter(answer for answer, _ in task.test.target)
    return _of_both(task, lambda part: [_commonest(counts, x) for _, x in part.target])


def _ending(word):
    is_capital = word[:1].isupper(), word[:1].isdigit()
    return ('ending', word[-_SUFFIX:].lower(), *is_capital)


def _best_sentence(task, model):
    @functools.cache
    def scored(part):
        return list(map(_sentence, part.first, part.second))

    def answers(part, bound):
        return [text if share >= bound else '' for text, share in scored(part)]

    def f1(bound):
        predicted = answers(task.validation, bound)
        return spans.measure(task.validation.target, predicted).standard['f1']

    best = max(np.linspace(0, 1, 11).tolist(), key=f1)
    return _of_both(task, functools.partial(answers, bound=best), shared=best)


def _sentence(question, context):
    """Returns (the sentence with most of the question's words, its share of them)."""
    asked = set(words.terms(question))
    sentences = re.split(r'(?<=[.!?])\s+|(?<=[。！？।။។])\s*(?=.)', context.strip())
    shared = [len(asked & set(words.terms(sentence))) for sentence in sentences]
    best = int(np.argmax(shared))
    return sentences[best], shared[best] / max(1, len(asked))


_CONTROLS = {
    'labels': {
        controls.LARGEST: lambda task, model: _constant(
            task, _commonest(Counter(map(str, task.train.target)))
        ),
        controls.TF_IDF: _tf_idf_classes,
        controls.BAG: _bag_classes,
    },
    'scores': {controls.TF_IDF: _tf_idf_scores, controls.BAG: _bag_scores},
    'tags': {COMMONEST: _commonest_tag},
    'spans': {NEVER: lambda task, model: _constant(task, ''), SENTENCE: _best_sentence},
    'cloze': {ANSWER: _commonest_answer},
    'retrieval': dict.fromkeys((*word_ranking.CONTROLS, controls.BAG)),  # by `members`
}
# Increased when values of a kind's controls change; then they are computed again.
VERSIONS = dict.fromkeys(_CONTROLS, 5) | {'scores': 6}
