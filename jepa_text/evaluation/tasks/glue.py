"""GLUE tasks, from GLUE's own TSV files or the version on the Hugging Face Hub.

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

import functools
from typing import NamedTuple

from jepa_text.config import resolve
from jepa_text.data.sets import tables
from jepa_text.evaluation.sets import targets
from jepa_text.evaluation.sets import task as tasks

HUB = 'hub:nyu-mll/glue'


class _Set(NamedTuple):
    """The format of a GLUE task.

    fields     names of the text fields and, last, the label; alternatives, of which the
               first that exists is used
    classes    {label in the file: class name}; {}: numbers
    skips      drop rows with other labels
    test       possible names of the test split
    header     column names of TSV files without a header
    broken     some lines of the TSV files are truncated and are dropped
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


def _classes(*names):
    """Maps class names and numbers to class names."""
    return {str(n): name for n, name in enumerate(names)} | {name: name for name in names}


_ENTAILED = _classes('entailment', 'not_entailment')
_MNLI = _Set(
    'accuracy',
    (('sentence1', 'sentence2', 'gold_label'), ('premise', 'hypothesis', 'label'), _PAIR),
    _classes('entailment', 'neutral', 'contradiction'),
    'entailment',
    skips=True,  # '-' and -1: the annotators disagreed
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


def make(task, path='', title='', zero_shot=False):
    """Makes a GLUE task from a folder or from the hub, by default nyu-mll/glue.

    A folder has train and dev (or validation, or dev_matched) files; train is not needed
    for a `zero_shot` task. `title` is the name in tables.
    """
    resolve.check_choice('glue: task', task, TASKS)
    known = TASKS[task]
    path = path or f'{HUB}/{task.removesuffix("_mismatched")}'
    read = functools.partial(tables.read, header=known.header, skip_short=known.broken)
    splits = tables.splits(path, read, (), known.test, zero_shot)
    if splits.test is None:
        raise ValueError(
            f'{task} in {path} needs a file whose name starts with {known.test[0]!r} or '
            f"{known.test[1]!r}, with labels: GLUE's own test sets have none."
        )
    parts = tasks.make_splits(
        splits,
        lambda rows, name: _examples(rows, known, f'{task} {name} in {path}'),
        zero_shot=zero_shot,
    )
    return tasks.Task(
        title or task,
        'scores' if known.metric == 'spearman' else 'labels',
        known.metric,
        **parts,
        positive=known.positive,
        template=known.template,
        classes=tuple(
            int(name) if name.isdigit() else name
            for name in dict.fromkeys(known.classes.values())
        ),
    )


def _examples(rows, known, where):
    if not rows:
        raise ValueError(f'{where}: the file has no rows.')
    fields = next((f for f in known.fields if set(f) <= set(rows[0])), known.fields[-1])
    *texts, values = tables.columns(rows, fields, where)
    if known.skips:
        kept = [n for n, value in enumerate(values) if str(value) in known.classes]
        *texts, values = ([column[n] for n in kept] for column in (*texts, values))
    if known.classes:
        labels = targets.labels(values, where, known=tuple(known.classes))
        target = [known.classes[label] for label in labels]
    else:
        target = targets.scores(values, where)
    return tasks.examples(texts[0], texts[1] if texts[1:] else None, target, where)
