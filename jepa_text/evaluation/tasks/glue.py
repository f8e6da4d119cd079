"""GLUE tasks, in the version on the Hugging Face Hub.

sst2    is a sentence of a film review positive?    Socher et al. 2013
cola    is it an acceptable English sentence?       Warstadt et al. 2019
mrpc    do two sentences have the same meaning?     Dolan & Brockett 2005
qqp     do two questions have the same meaning?     Iyer et al. 2017
mnli    entailment, neutral or contradiction?       Williams et al. 2018, matched;
                                                    mnli_mismatched: other genres
rte     does one sentence entail the other?         Dagan et al. 2005 and later
qnli    does a sentence answer the question?        Rajpurkar et al. 2016
stsb    how similar are two sentences, 0 to 5?      Cer et al. 2017

The labels of GLUE's test sets are not public, so its validation set is the test set, as
in arXiv 2507.00994, section 3. Templates of pairs are those of that paper if it has one.
"""

from typing import NamedTuple

from jepa_text.data.sets import tables
from jepa_text.evaluation.sets import targets
from jepa_text.evaluation.sets import task as tasks
from jepa_text.settings import resolve

HUB = 'hub:nyu-mll/glue'


class _Set(NamedTuple):
    """A GLUE task: its metric, names of the text fields, and names of the classes in
    order, or () for numbers.

    skips      drop rows without a class, whose label is -1
    test       possible names of the test split
    """

    metric: str
    fields: tuple
    classes: tuple = ('0', '1')
    positive: object = None
    skips: bool = False
    test: tuple = ('validation', 'dev')
    template: str = ''


_PAIR = ('sentence1', 'sentence2')
_SENTENCES = 'Sentence 1: {first}\nSentence 2: {second}'
_PREMISE = 'Premise: {first}\nHypothesis: {second}'
_ENTAILED = ('entailment', 'not_entailment')
_MNLI = _Set(
    'accuracy',
    ('premise', 'hypothesis'),
    ('entailment', 'neutral', 'contradiction'),
    'entailment',
    skips=True,  # -1: the annotators disagreed
    test=('validation_matched',),
    template=_PREMISE,
)
TASKS = {
    'sst2': _Set('accuracy', ('sentence',)),
    'cola': _Set('mcc', ('sentence',)),
    'mrpc': _Set('f1', _PAIR, positive='1', template=_SENTENCES),
    'qqp': _Set(
        'accuracy',
        ('question1', 'question2'),
        positive='1',
        template='Question 1: {first}\nQuestion 2: {second}',
    ),
    'mnli': _MNLI,
    'mnli_mismatched': _MNLI._replace(test=('validation_mismatched',)),
    'rte': _Set('accuracy', _PAIR, _ENTAILED, 'entailment', template=_PREMISE),
    'qnli': _Set(
        'accuracy',
        ('question', 'sentence'),
        _ENTAILED,
        template='Question: {first}\nSentence: {second}',
    ),
    'stsb': _Set('spearman', _PAIR, (), 4.0, template=_SENTENCES),
}


def make(task, path='', zero_shot=False):
    """Makes a GLUE task from the hub, by default nyu-mll/glue, or from a folder with
    train and validation (or dev, or validation_matched) files of the same fields; train
    is not needed for a `zero_shot` task."""
    resolve.check_choice('glue: task', task, TASKS)
    known = TASKS[task]
    path = path or f'{HUB}/{task.removesuffix("_mismatched")}'
    splits = tables.splits(path, tables.read, (), known.test, zero_shot)
    if splits.test is None:
        raise ValueError(
            f'{task} in {path} needs a file whose name starts with {known.test[0]!r}, '
            "with labels: GLUE's own test sets have none."
        )
    parts = tasks.make_splits(
        splits,
        lambda rows, name: _examples(rows, known, f'{task} {name} in {path}'),
        zero_shot=zero_shot,
    )
    return tasks.Task(
        task,
        'labels' if known.classes else 'scores',
        known.metric,
        **parts,
        positive=known.positive,
        template=known.template,
        classes=tuple(int(x) if x.isdigit() else x for x in known.classes),
    )


def _examples(rows, known, where):
    if not rows:
        raise ValueError(f'{where}: the file has no rows.')
    *texts, values = tables.columns(rows, (*known.fields, 'label'), where)
    if known.skips:
        kept = [n for n, value in enumerate(values) if str(value) != '-1']
        *texts, values = ([column[n] for n in kept] for column in (*texts, values))
    if known.classes:
        number = {str(n): name for n, name in enumerate(known.classes)}
        labels = targets.labels(values, where, known=tuple(number))
        target = [number[label] for label in labels]
    else:
        target = targets.scores(values, where)
    return tasks.examples(texts[0], texts[1] if texts[1:] else None, target, where)
