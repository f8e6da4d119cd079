"""GLUE's tasks as they are published, from GLUE's own TSV files or Hugging Face's.

sst2    is a film review's sentence positive?       Socher et al. 2013
cola    is it an English sentence?                  Warstadt et al. 2019
mrpc    do two sentences say the same?              Dolan & Brockett 2005
qqp     do two questions ask the same?              Iyer et al. 2017
mnli    entailment, neutral or contradiction?       Williams et al. 2018, matched;
                                                    mnli_mismatched: other genres
rte     does one sentence entail the other?         Dagan et al. 2005 and later
qnli    does a sentence answer the question?        Rajpurkar et al. 2016
stsb    how similar are two sentences, 0 to 5?      Cer et al. 2017

GLUE keeps the labels of its test sets, so its validation set is the test set, as in
arXiv 2507.00994, section 3; the templates of pairs are that paper's where it has any.
"""

import functools
from typing import NamedTuple

from jepa_text.config import resolve
from jepa_text.data.sets import tables
from jepa_text.evaluation.sets import targets
from jepa_text.evaluation.sets import task as tasks

HUB = 'hub:nyu-mll/glue'


class _Set(NamedTuple):
    """`fields`: of the texts and, last, of the label; the first that are there are taken.

    `classes`: labels as they are written -> as they are called; {}: numbers. With
    `skips`, rows of other labels are left out. `header`: of TSV files without one.
    `broken`: some lines of its TSV files are cut, and are left out.
    """

    metric: str
    fields: tuple
    classes: dict = {}
    positive: object = None
    skips: bool = False
    test: tuple = ('dev', 'validation')
    header: tuple | None = None
    template: str = ''
    broken: bool = False


_SENTENCE = (('sentence', 'label'),)
_PAIR = ('sentence1', 'sentence2', 'label')
_SENTENCES = 'Sentence 1: {first}\nSentence 2: {second}'
_PREMISE = 'Premise: {first}\nHypothesis: {second}'
_BINARY = {'0': '0', '1': '1'}


def _called(*names):
    """Classes that are written by name or by number."""
    return {str(n): name for n, name in enumerate(names)} | {name: name for name in names}


_ENTAILED = _called('entailment', 'not_entailment')
_MNLI = _Set(
    'accuracy',
    (('sentence1', 'sentence2', 'gold_label'), ('premise', 'hypothesis', 'label'), _PAIR),
    _called('entailment', 'neutral', 'contradiction'),
    'entailment',
    skips=True,  # '-' and -1: the annotators did not agree
    test=('dev_matched', 'validation_matched', 'dev', 'validation'),
    template=_PREMISE,
)
TASKS = {
    'sst2': _Set('accuracy', _SENTENCE, _BINARY),
    'cola': _Set(
        'mcc', _SENTENCE, _BINARY, header=('source', 'label', 'star', 'sentence')
    ),
    'mrpc': _Set(
        'f1',
        (('#1 String', '#2 String', 'Quality'), _PAIR),
        _BINARY,
        '1',
        template=_SENTENCES,
    ),
    'qqp': _Set(
        'accuracy',
        (('question1', 'question2', 'is_duplicate'), ('question1', 'question2', 'label')),
        _BINARY,
        '1',
        template='Question 1: {first}\nQuestion 2: {second}',
        broken=True,
    ),
    'mnli': _MNLI,
    'mnli_mismatched': _MNLI._replace(test=('dev_mismatched', 'validation_mismatched')),
    'rte': _Set('accuracy', (_PAIR,), _ENTAILED, 'entailment', template=_PREMISE),
    'qnli': _Set(
        'accuracy',
        (('question', 'sentence', 'label'),),
        _ENTAILED,
        template='Question: {first}\nSentence: {second}',
    ),
    'stsb': _Set(
        'spearman', ((*_PAIR[:2], 'score'), _PAIR), positive=4.0, template=_SENTENCES
    ),
}


def make(task, path='', title=''):
    """From a folder with train and dev (or validation, or dev_matched), or a name on the
    hub, by default nyu-mll/glue; `title` names the task in tables."""
    resolve.check_choice('glue: task', task, TASKS)
    one = TASKS[task]
    path = path or f'{HUB}/{task.removesuffix("_mismatched")}'
    read = functools.partial(tables.read, header=one.header, skip_short=one.broken)
    found = tables.splits(path, read, validation=(), test=one.test)
    if found.test is None:
        raise ValueError(
            f'{task} in {path} needs a file whose name begins with {one.test[0]!r} or '
            f"{one.test[1]!r}, with labels: those of GLUE's own test sets are secret."
        )
    made = tasks.sides(found, lambda rows, s: _side(rows, one, f'{task} {s} in {path}'))
    kind = 'scores' if one.metric == 'spearman' else 'labels'
    given = dict(positive=one.positive, template=one.template)
    return tasks.Task(title or task, kind, one.metric, **made, **given)


def _side(rows, one, where):
    if not rows:
        raise ValueError(f'{where}: there is no row.')
    fields = next((f for f in one.fields if set(f) <= set(rows[0])), one.fields[-1])
    *texts, values = (tables.column(rows, name, where) for name in fields)
    if one.skips:
        kept = [n for n, value in enumerate(values) if str(value) in one.classes]
        *texts, values = ([column[n] for n in kept] for column in (*texts, values))
    if one.classes:
        known = targets.labels(values, where, known=tuple(one.classes))
        target = [one.classes[value] for value in known]
    else:
        target = targets.scores(values, where)
    return tasks.examples(texts[0], texts[1] if texts[1:] else None, target, where)
