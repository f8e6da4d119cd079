"""What a task gives away without a pretrained model: controls as members of a grid.

kind      control
labels    the largest class; TF-IDF or the bag of a model's embeddings, with logistic
          regression
scores    of pairs, the cosine of TF-IDF and of the bag; of texts, ridge regression on
          both
tags      the commonest tag of a word, for unknown ones that of words which end alike
spans     never an answer; the sentence that shares most words with the question
cloze     the answer that is the commonest, of the candidates if there are

Each learns from `train`, chooses on `validation`, and answers as the metrics take it, so
that it is measured as the models are. The texts are those of the task: where a model
reads less, give the task as data/truncation.py cuts it. Of retrieval, see ranking.py.
"""

import re
import time
from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from jepa_text.evaluation import controls, identity
from jepa_text.evaluation.controls import features as word_features
from jepa_text.evaluation.controls import words
from jepa_text.evaluation.metrics import base, classes, cloze, scores, spans, tags
from jepa_text.measures import probes

COMMONEST, NEVER, SENTENCE = 'commonest tag', 'never an answer', 'sentence of most words'
ANSWER = 'commonest answer'
INVERSE_PENALTIES = (1.0, 10.0, 100.0)  # C of scikit-learn
PENALTIES = (0.1, 1.0, 10.0)  # of ridge regression
_TINY = 1e-12
_SUFFIX, _RARE = 3, 5  # letters of an ending; words as rare as that are like unknown ones


class Said(NamedTuple):
    """What a control says of the validation and of the test set, and what it `chose`."""

    control: str
    validation: list
    test: list
    chose: dict


def said(task, model=None):
    """[Said] of each control of a task with a validation set; of the bag of embeddings,
    if a load.Pretrained is given. Raises ValueError for a kind without controls."""
    kinds = {'labels': _labels, 'scores': _scores, 'tags': _tags, 'spans': _spans}
    kinds |= {'cloze': _cloze}
    if task.kind not in kinds or task.validation is None:
        raise ValueError(
            f'{task.name}, a task of {task.kind}: there are controls of '
            f'{", ".join(kinds)}, for tasks with a validation set '
            '(task.with_validation).'
        )
    return list(kinds[task.kind](task, model))


def members(task, settings, model=None):
    """Yields (config, outcome, per_instance, predictions) of each control, as
    results.write takes them.

    `settings`: the rest of a config, such as data_revision. A control has the learning
    rate 0 and the seed 0, as no chance has a part in it.
    """
    began = time.monotonic()
    for one in said(task, model):
        name, revision = one.control, one.control
        if one.control == controls.BAG:
            name, revision = f'{model.name}, {name}', settings['model_revision']
        own = dict(model=name, model_revision=revision, control=one.control)
        config = {**settings, **own, 'learning_rate': 0.0, 'seed': 0, 'steps': 0}
        measured = [
            measure(task, examples, answers)
            for examples, answers in (
                (task.validation, one.validation),
                (task.test, one.test),
            )
        ]
        # Of spans and words no package has a part.
        used = () if task.kind in ('spans', 'cloze') else ('scikit-learn', 'scipy')
        versions = identity.versions(task.kind, *used)
        found = outcome(*measured, time.monotonic() - began, versions)
        yield {**config, 'chosen': one.chose}, found, measured[1].per_instance, one.test
        began = time.monotonic()


def outcome(validation, test, seconds, versions):
    """What results.write takes of a control that was measured."""
    both = [{'standard': m.standard, 'paper': m.paper} for m in (validation, test)]
    return {
        'status': 'done',
        'validation': both[0],
        'test': both[1],
        'losses': [],
        'seconds': round(seconds, 3),
        'versions': versions,
    }


def measure(task, examples, answers):
    """metrics.base.Measured of the answers of a control to examples of a task; of spans
    by the standard definitions only, as words are no tokens."""
    if task.kind == 'labels':
        parts = (task.train, task.validation, task.test)
        known = sorted({str(label) for part in parts for label in part.target})
        return classes.measure(list(map(str, examples.target)), answers, known)
    if task.kind == 'scores':
        return scores.measure(examples.target, answers)
    if task.kind == 'cloze':
        pairs = zip(examples.target, answers)
        return cloze.measure([1 if x == y else np.inf for (x, _), y in pairs])
    return (tags if task.kind == 'tags' else spans).measure(examples.target, answers)


def _labels(task, model):
    target = [list(map(str, part.target)) for part in (task.train, task.validation)]
    (largest, _), *_ = sorted(Counter(target[0]).items(), key=lambda x: (-x[1], x[0]))
    parts = [[largest] * len(part) for part in (task.validation, task.test)]
    yield Said(controls.LARGEST, *parts, {})
    best = None
    for grams, penalties in ((1, INVERSE_PENALTIES), (2, None)):
        features = word_features.joined(task, word_features.counted(task, grams))
        # Pairs of words at the penalty that is best for words.
        found = _likeliest(features, target, penalties or (best.chose['C'],))
        if best is None or found.likelihood > best.likelihood:
            best = found._replace(chose={**found.chose, 'words': grams})
    yield Said(controls.TF_IDF, *best.answers, best.chose)
    if model is None:
        return
    features = word_features.joined(task, word_features.bags(task, model))
    features = word_features.standardized(features)
    best = _likeliest(features, target, probes.INVERSE_PENALTIES)
    yield Said(controls.BAG, *best.answers, best.chose)


class _Fitted(NamedTuple):
    likelihood: float
    chose: dict
    answers: list


def _likeliest(features, target, penalties):
    """Logistic regression at the penalty under which the labels of the validation set
    are likeliest, which is steadier than how many are right."""
    found = []
    for inverse in penalties:
        linear_model = base.extra('sklearn.linear_model')
        model = linear_model.LogisticRegression(C=inverse, max_iter=3000)
        answers = word_features.fitted(model, features, target[0])
        share_NC = model.predict_proba(features[1])
        place = {label: index for index, label in enumerate(model.classes_)}
        # One that was never learned has no share.
        share_N = [
            row_C[place[label]] if label in place else 0.0
            for row_C, label in zip(share_NC, target[1])
        ]
        likelihood = float(np.mean(np.log(np.maximum(share_N, _TINY))))
        answers = [said_N.tolist() for said_N in answers]
        found.append(_Fitted(likelihood, {'C': inverse}, answers))
    return max(found, key=lambda one: one.likelihood)


def _scores(task, model):
    made = {controls.TF_IDF: word_features.counted(task, 1)}
    if model is not None:
        made[controls.BAG] = word_features.bags(task, model)
    for control, parts in made.items():
        if task.train.second is not None:
            answers = [word_features.cosine(*part).tolist() for part in parts[1:]]
            yield Said(control, *answers, {})
            continue
        features, found = [first for first, _ in parts], []
        if control == controls.BAG:
            features = word_features.standardized(features)
        for penalty in PENALTIES:
            ridge = base.extra('sklearn.linear_model').Ridge(penalty)
            answers = word_features.fitted(ridge, features, task.train.target)
            score = scores.measure(task.validation.target, answers[0]).standard
            found.append((score['spearman'], penalty, answers))
        _, penalty, answers = max(found, key=lambda one: one[0])
        yield Said(control, *(x.tolist() for x in answers), {'penalty': penalty})


def _tags(task, model):
    counts = Counter(word for sentence in task.train.first for word in sentence)
    seen = defaultdict(Counter)
    for sentence, target in zip(task.train.first, task.train.target):
        for word, tag in zip(sentence, target):
            seen[word][tag] += 1
            seen['lower', word.lower()][tag] += 1
            seen['all',][tag] += 1
            if counts[word] <= _RARE:
                seen[_ending(word)][tag] += 1
    # Of equals the first in the alphabet.
    known = {
        key: min(found, key=lambda tag: (-found[tag], tag)) for key, found in seen.items()
    }

    def of(word):
        keys = (word, ('lower', word.lower()), _ending(word), ('all',))
        return next(known[key] for key in keys if key in known)

    parts = [
        [[of(word) for word in sentence] for sentence in part.first]
        for part in (task.validation, task.test)
    ]
    yield Said(COMMONEST, *parts, {})


def _cloze(task, model):
    counts = Counter(answer for answer, _ in task.train.target)
    # Of equals the first in the alphabet.
    parts = [
        [
            min(others or counts, key=lambda word: (-counts[word], word))
            for _, others in part.target
        ]
        for part in (task.validation, task.test)
    ]
    yield Said(ANSWER, *parts, {})


def _ending(word):
    is_capital = word[:1].isupper(), word[:1].isdigit()
    return ('ending', word[-_SUFFIX:].lower(), *is_capital)


def _spans(task, model):
    sides = task.validation, task.test
    yield Said(NEVER, *([''] * len(part) for part in sides), {})
    found = [
        [_sentence(*pair) for pair in zip(part.first, part.second)] for part in sides
    ]

    def answers(part, bound):
        return [text if share >= bound else '' for text, share in part]

    def f1(bound):
        said = answers(found[0], bound)
        return spans.measure(task.validation.target, said).standard['f1']

    best = max(np.linspace(0, 1, 11).tolist(), key=f1)
    yield Said(SENTENCE, *(answers(part, best) for part in found), {'shared': best})


def _sentence(question, context):
    """(the sentence that has most of a question's words, the share that it has)."""
    asked = set(words.words(question))
    sentences = re.split(r'(?<=[.!?])\s+', context.strip())
    shared = [len(asked & set(words.words(one))) for one in sentences]
    place = int(np.argmax(shared))
    return sentences[place], shared[place] / max(1, len(asked))
