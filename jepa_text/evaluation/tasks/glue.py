"""GLUE's tasks as they are published, from GLUE's own TSV files or Hugging Face's.

sst2    is a film review's sentence positive?       Socher et al. 2013
cola    is it an English sentence?                  Warstadt et al. 2019
mrpc    do two sentences say the same?              Dolan & Brockett 2005
mnli    entailment, neutral or contradiction?       Williams et al. 2018, matched
stsb    how similar are two sentences, 0 to 5?      Cer et al. 2017
"""

from typing import NamedTuple

from jepa_text.config import resolve
from jepa_text.data import tables
from jepa_text.evaluation import task as tasks


class _Set(NamedTuple):
    """`fields`: of the texts and, last, of the label; the first that are there are taken.

    `classes`: labels as they are written -> as they are called; {}: as they are written,
    any. With `skips`, rows of other labels are left out.
    """

    metric: str
    fields: tuple
    classes: dict = {}
    positive: object = None
    skips: bool = False
    test: tuple = ('dev', 'validation')
    header: tuple | None = None


_SENTENCE = (('sentence', 'label'),)
_PAIR = ('sentence1', 'sentence2', 'label')
_MNLI = {'0': 'entailment', '1': 'neutral', '2': 'contradiction'}
_BINARY = {'0': '0', '1': '1'}
TASKS = {
    'sst2': _Set('accuracy', _SENTENCE),
    # Its TSV has no header line.
    'cola': _Set(
        'mcc', _SENTENCE, _BINARY, header=('source', 'label', 'star', 'sentence')
    ),
    'mrpc': _Set('f1', (('#1 String', '#2 String', 'Quality'), _PAIR), _BINARY, '1'),
    # '-' and -1: the annotators did not agree.
    'mnli': _Set(
        'accuracy',
        (('sentence1', 'sentence2', 'gold_label'), ('premise', 'hypothesis', 'label')),
        _MNLI | {name: name for name in _MNLI.values()},
        'entailment',
        skips=True,
        test=('dev_matched', 'validation_matched', 'dev', 'validation'),
    ),
    'stsb': _Set('spearman', ((*_PAIR[:2], 'score'), _PAIR), positive=4.0),
}


def make(task, path, title=''):
    """From a folder with train and dev (or validation, or dev_matched); `title` names the
    task in tables."""
    if task not in TASKS:
        raise ValueError(f'glue: task={task!r}.{resolve.nearest(task, TASKS)}')
    one = TASKS[task]
    found = tables.splits(path, test=one.test, header=one.header)
    sides = [
        _side(rows, one, f'{task} {side} in {path}')
        for rows, side in zip(found, ('train', one.test[0]))
    ]
    kind = 'scores' if one.metric == 'spearman' else 'labels'
    return tasks.Task(title or task, kind, one.metric, *sides, positive=one.positive)


def _side(rows, one, where):
    if not rows:
        raise ValueError(f'{where}: there is no such file, or no row in it.')
    fields = next((f for f in one.fields if f[-1] in rows[0]), one.fields[-1])
    *texts, values = (tables.column(rows, name, where) for name in fields)
    if one.skips:
        kept = [n for n, value in enumerate(values) if str(value) in one.classes]
        *texts, values = ([column[n] for n in kept] for column in (*texts, values))
        target = [one.classes[str(value)] for value in values]
    elif one.metric == 'spearman':
        target = tasks.scores(values, where)
    else:
        target = tasks.labels(values, where, known=tuple(one.classes) or None)
    return tasks.examples(texts[0], texts[1] if texts[1:] else None, target, where)
