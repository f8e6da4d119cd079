"""Text classification from files: single texts or pairs with a class each.

Formats are .jsonl, .tsv, .csv and .parquet, as a file, a folder or a name on the hub.
"""

from jepa_text.data.sets import tables
from jepa_text.evaluation.sets import targets
from jepa_text.evaluation.sets import task as tasks


def make(
    path,
    text='text',
    label='label',
    second='',
    template='{first}\n{second}',
    labels=(),
    title='',
    seed=0,
):
    """Makes a classification task.

    text, label    names of the fields
    second         field of the second text of a pair; '' for single texts
    template       makes one text of a pair
    labels         all classes; other labels are then an error. Classes given as numbers
                   get the names that a Parquet file has for them
    title          the name in tables (default: the file's name)

    A folder with files train and test (or dev, validation), or a name on the hub, keeps
    its splits. Of a single file, 40 % are the test set, drawn by `seed`.
    """
    title = title or tables.stem(path)
    fields, known = (text, second, label), tuple(map(str, labels)) or None
    parts = tasks.make_splits(
        tables.splits(path, lambda file: tables.read_named(file, label)),
        lambda rows, split: _examples(
            rows, fields, known, f'{title}, {split}, in {path}'
        ),
        seed,
    )
    _check_hidden(parts, f'{title} in {path}')
    if second:
        targets.check_template(template, title)
        parts['template'] = template
    return tasks.Task(title, 'labels', 'accuracy', **parts)


def _examples(rows, fields, known, where):
    text, second, label = fields
    labels = targets.labels(tables.column(rows, label, where), where, known)
    others = tables.column(rows, second, where) if second else None
    return tasks.examples(tables.column(rows, text, where), others, labels, where)


def _check_hidden(parts, where):
    """Raises ValueError if no test label is a training label.

    Sets with hidden labels write -1 or similar for a whole test set.
    """
    train, test = (set(parts[split].target.tolist()) for split in ('train', 'test'))
    if not train & test:
        raise ValueError(
            f'{where}: none of the test labels ({", ".join(sorted(test)[:5])}) is among '
            f'the training labels ({", ".join(sorted(train)[:5])}). If test labels are '
            'hidden, remove that file: the validation set is then the test set.'
        )
