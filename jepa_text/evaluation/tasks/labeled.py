"""Classification and regression from files: texts or pairs with a class or a number.

Formats are .jsonl, .tsv, .csv and .parquet, as a file, a folder or a name on the hub.
"""

import warnings

import numpy as np

from jepa_text.data.sets import tables
from jepa_text.evaluation.sets import targets
from jepa_text.evaluation.sets import task as tasks
from jepa_text.settings import resolve

_HIDDEN = (
    'If the labels of a test file are hidden, remove that file: without a test set, the '
    'validation set is the test set. A class needs some examples; numbers to regress on '
    "need kind='scores'."
)
KINDS = ('', 'labels', 'scores')


def make(
    path,
    text='text',
    label='label',
    second='',
    template='{first}\n{second}',
    labels=(),
    kind='',
    seed=0,
    zero_shot=False,
):
    """Makes a task of classes or, for kind='scores', of numbers.

    text, label    names of the fields
    second         field of the second text of a pair; '' for single texts
    template       makes one text of a pair
    labels         all classes in order; other labels are then an error. By default they
                   are those of the set, numbers in order. Classes given as numbers get
                   the names that a Parquet file has for them, in the order of these
    kind           'labels', or 'scores' for regression; '': regression for more than
                   targets.FEW numbers that are not integers, which is said

    A folder with files train and test (or dev, validation), or a name on the hub, keeps
    its splits. Of a single file, 40 % are the test set, drawn by `seed`; for a
    `zero_shot` task, all of it. Pairs of the highest quarter of scores have the same
    meaning.
    """
    resolve.check_choice('labeled: kind', kind, KINDS)
    title = tables.stem(path)
    where = lambda split: f'{title}, {split}, in {path}'  # noqa: E731
    splits, names = _read(path, label, not labels, zero_shot)
    values = []
    for split, rows in zip(tasks.SPLITS, splits):
        values += tables.columns(rows, [label], where(split))[0] if rows else []
    if not kind and not labels:
        kind = _kind_of(values, f'{title}: the field {label!r}')
    if names and kind != 'scores':
        splits = _without_class(splits, label, names, where)
    known = tuple(map(str, labels or names)) or None

    def examples(rows, split):
        place = where(split)
        texts, others, given = tables.columns(rows, (text, second, label), place)
        if kind == 'scores':
            target = targets.scores(given, place)
        else:
            target = targets.labels(given, place, known)
        return tasks.examples(texts, others, target, place)

    parts = tasks.make_splits(splits, examples, seed, zero_shot)
    if second:
        targets.check_template(template, title)
        parts['template'] = template
    if kind == 'scores':
        known = parts['train'] if len(parts['train']) else parts['test']
        positive = float(np.quantile(known.target, 0.75)) if second else None
        return tasks.Task(title, 'scores', 'spearman', **parts, positive=positive)
    _check_hidden(parts, f'{title} in {path}')
    given = tuple(labels or names) or targets.classes(values)
    return tasks.Task(title, 'labels', 'accuracy', **parts, classes=given)


def _kind_of(values, where):
    """Returns 'scores' for more than a few fractions, and says so; else 'labels'."""
    fractions = targets.fractions(values)
    if len(fractions) <= targets.FEW:
        return 'labels'
    print(
        f'{where} has {len(fractions):,} fractions such as {fractions[0]:g}: scores, to '
        "regress on; kind='labels' makes them classes."
    )
    return 'scores'


def _read(path, label, typed, zero_shot):
    """Returns (tables.Splits, names of the classes or ()). With `typed`, labels that are
    only text in their file, such as a CSV, are numbers or booleans if all are such."""
    names, untyped = {}, []

    def read(file):
        rows, known = tables.read(file), tables.class_names(file, label)
        names.update(dict.fromkeys(known))
        for row in rows if known else ():
            if isinstance(row[label], int) and 0 <= row[label] < len(known):
                row[label] = known[row[label]]
        if tables.kind_of(file) in ('csv', 'tsv'):
            untyped.extend(row for row in rows if label in row)
        return rows

    splits = tables.splits(path, read, zero_shot=zero_shot)
    if typed and not names:
        for row, value in zip(untyped, targets.typed([row[label] for row in untyped])):
            row[label] = value
    return splits, tuple(names)


def _without_class(splits, label, names, where):
    """Drops rows whose number stands for no class, such as -1, and warns of them."""
    kept = []
    for split, rows in zip(tasks.SPLITS, splits):
        given = [row.get(label) for row in rows or ()]
        numbers = [n for n, x in enumerate(given) if isinstance(x, int)]
        if numbers and len(numbers) == len(rows):
            raise ValueError(
                f'{where(split)}: all labels are numbers, such as {given[0]}, that stand '
                f'for none of the classes {", ".join(names)}. {_HIDDEN}'
            )
        if numbers:
            warnings.warn(
                f'{where(split)}: {len(numbers):,} of {len(rows):,} rows have no class '
                f'of {", ".join(names)}, but a number such as {given[numbers[0]]}, '
                f'and are dropped, the first in row {numbers[0] + 1:,}.',
                stacklevel=3,
            )
            rows = [row for row, x in zip(rows, given) if not isinstance(x, int)]
        kept.append(rows)
    return splits._replace(**dict(zip(tasks.SPLITS, kept)))


def _check_hidden(parts, where):
    """Raises ValueError if no test label is a training label: sets with hidden labels
    write -1 or similar for a whole test set."""
    train, test = (set(parts[split].target.tolist()) for split in ('train', 'test'))
    if train and not train & test:
        raise ValueError(
            f'{where}: none of the test labels ({", ".join(sorted(test)[:5])}) is among '
            f'the training labels ({", ".join(sorted(train)[:5])}). {_HIDDEN}'
        )
