"""Any texts with a class each, or pairs: .jsonl, .tsv, .csv or .parquet, or a folder."""

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
    """`text` and `label` name the fields, `second` that of the second text of a pair, ''
    for single texts; `template` makes one text of a pair. With `labels`, all classes that
    there are, others are an error; numbers of classes are called as a Parquet file says.
    `title` is the task's in tables (the file's name).

    A folder with train and test (or dev, validation) keeps its split, and a name on the
    hub does; of one file, 40 % are the test set, dealt by `seed`.
    """
    title = title or tables.stem(path)
    fields, known = (text, second, label), tuple(map(str, labels)) or None
    made = tasks.sides(
        tables.splits(path, lambda file: tables.read_named(file, label)),
        lambda rows, split: _side(rows, fields, known, f'{title}, {split}, in {path}'),
        seed,
    )
    _check_hidden(made, f'{title} in {path}')
    if second:
        targets.check_template(template, title)
        made['template'] = template
    return tasks.Task(title, 'labels', 'accuracy', **made)


def _side(rows, fields, known, where):
    text, second, label = fields
    labels = targets.labels(tables.column(rows, label, where), where, known)
    others = tables.column(rows, second, where) if second else None
    return tasks.examples(tables.column(rows, text, where), others, labels, where)


def _check_hidden(made, where):
    """Sets with secret labels write -1, or the like, for all of a test set."""
    known, given = (set(made[side].target.tolist()) for side in ('train', 'test'))
    if not known & given:
        raise ValueError(
            f'{where}: the test labels ({", ".join(sorted(given)[:5])}) are none of the '
            f'training labels ({", ".join(sorted(known)[:5])}). Are they hidden? Then '
            'leave that file out, and the validation set is the test set.'
        )
