"""Sequence labeling metrics: entity-level F1, precision and recall, and word accuracy.

Gold entities are in IOB2: B- starts every entity, I- continues it, O is outside. Other
tags, such as parts of speech, have no entities and so no entity_*.
"""

import re

import numpy as np

from jepa_text.evaluation.metrics import base
from jepa_text.measures import correlations

OUTSIDE = 'O'
# A tag in IOB2, whose type may have spaces, and what is meant as one.
IOB2 = re.compile(r'O|[BI]-\S(.*\S)?')
_PREFIXED = re.compile(r'[BI][-_].+', re.IGNORECASE)


def measure(gold, predicted, labels=()):
    """Returns the Measured of one list of tags per sentence, one tag per word.

    entity_f1, entity_precision, entity_recall    seqeval's strict mode: a predicted
                      entity must start with B-; micro-averaged over types
    token_accuracy    share of correct words; the value of a sentence is its influence on
                      it, as of entity_f1, so that the mean over sentences is the share
    paper: sentence_macro_f1    mean over sentences of the macro-F1 of a sentence's tags,
                      including O (arXiv 2507.00994, section 3). It ignores entity
                      boundaries; it is 1 for a sentence of correct O tags

    `labels` are all tags of the task: none are entities if one of these is not in IOB2.
    Raises ValueError for a sentence without words, for gold entities that do not start
    with B-, and for gold tags of which only some are in IOB2.
    """
    lengths_N = [len(sentence) for sentence in gold]
    if 0 in lengths_N:
        raise ValueError(f'Sentence {lengths_N.index(0)} has no words: leave it out.')
    names, tag_M = np.unique(
        [tag for side in (gold, predicted) for sentence in side for tag in sentence],
        return_inverse=True,
    )
    gold_M, predicted_M = np.split(tag_M, 2)
    sentence_M = np.repeat(np.arange(len(gold)), lengths_N)
    is_right_M = gold_M == predicted_M
    accuracy = float(np.mean(is_right_M))
    right_N = np.bincount(sentence_M, is_right_M)
    influence_N = correlations.ratio_influence(right_N, np.array(lengths_N, float))
    standard, per_instance = {'token_accuracy': accuracy}, {'token_accuracy': influence_N}
    if all(map(IOB2.fullmatch, labels)) and _has_entities(gold):
        values, per_instance['entity_f1'] = _entities(gold, predicted)
        standard = values | standard
    macro_N = _macro_f1(sentence_M, gold_M, predicted_M, len(names))
    return base.Measured(
        standard,
        {'sentence_macro_f1': float(macro_N.mean())},
        per_instance | {'paper_sentence_macro_f1': macro_N},
    )


def _has_entities(gold):
    """Returns whether the tags are in IOB2; raises ValueError for inconsistent tags."""
    if not are_entities(gold, 'gold sentence {}'.format):
        return False
    for index, sentence in enumerate(gold):
        for before, tag in zip([OUTSIDE, *sentence], sentence):
            if tag.startswith('I-') and before[2:] != tag[2:]:
                raise ValueError(
                    f'Gold sentence {index} has {tag!r} after {before!r}, but in IOB2 an '
                    f'entity starts with B-{tag[2:]}. Convert the tags to IOB2.'
                )
    return True


def are_entities(sentences, where):
    """Returns whether some lists of tags are in IOB2: all of their tags, or none but O.

    Raises ValueError for a tag among these that is not, with the name of its sentence,
    `where(index)`: otherwise one such tag would hide the entities of all.
    """
    known = {tag for tags in sentences for tag in tags}
    invalid = {tag for tag in known if not IOB2.fullmatch(tag)}
    if not invalid:
        return True
    if any(map(_PREFIXED.fullmatch, known)):
        index, place, tag = next(
            (index, place, tag)
            for index, tags in enumerate(sentences)
            for place, tag in enumerate(tags, 1)
            if tag in invalid
        )
        raise ValueError(
            f'{where(index)}: word {place} has the tag {tag!r}, but other tags are of '
            f'entities, such as {min(filter(_PREFIXED.fullmatch, known))!r}: each must '
            'be O, or B- or I- and a type. Fix the tag, or convert all to IOB2.'
        )
    return False


def _entities(gold, predicted):
    """Returns (values of all sentences, one per sentence whose mean is entity_f1)."""
    scheme = base.extra('seqeval.scheme')
    sides = [[list(map(str, words)) for words in side] for side in (gold, predicted)]
    sides = (scheme.Entities(side, scheme.IOB2).entities for side in sides)
    pairs = [(set(one), set(other)) for one, other in zip(*sides)]
    counts = [(len(one & other), len(one), len(other)) for one, other in pairs]
    right_N, gold_N, predicted_N = np.array(counts, float).T
    wholes = {
        'precision': predicted_N,
        'recall': gold_N,
        'f1': (gold_N + predicted_N) / 2,
    }
    values = {
        f'entity_{name}': float(right_N.sum() / max(1, whole_N.sum()))
        for name, whole_N in wholes.items()
    }
    return values, correlations.ratio_influence(2 * right_N, gold_N + predicted_N)


def _macro_f1(sentence_M, gold_M, predicted_M, count):
    """Returns [N]: the macro-F1 of each sentence, as of scikit-learn, which takes 1 ms
    each."""
    shape = sentence_M[-1] + 1, count

    def table(tags_M, weights_M=None):
        cells_M = sentence_M * count + tags_M
        return np.bincount(cells_M, weights_M, np.prod(shape)).reshape(shape)

    right_NC = table(gold_M, gold_M == predicted_M)
    either_NC = table(gold_M) + table(predicted_M)
    f1_NC = 2 * right_NC / np.maximum(either_NC, 1)
    return f1_NC.sum(axis=1) / (either_NC > 0).sum(axis=1)
