"""Text regression from files: single texts or pairs with a number each.

File formats are those of labeled.py. For pairs whose vectors should be as similar as the
number says, use pairs.py.
"""

from jepa_text.data.sets import tables
from jepa_text.evaluation.sets import targets
from jepa_text.evaluation.sets import task as tasks


def make(
    path,
    text='text',
    score='score',
    second='',
    template='{first}\n{second}',
    group='',
    title='',
    seed=0,
    zero_shot=False,
):
    """Makes a regression task; `text`, `score` and `second` name the fields.

    The other arguments are as in labeled.py and pairs.py.
    """
    title = title or tables.stem(path)
    splits = tables.splits(path, zero_shot=zero_shot)
    given = path, text, score, second, template, group, title, seed, zero_shot
    return of_splits(splits, *given)


def of_splits(splits, path, text, score, second, template, group, title, seed, zero_shot):
    """Makes the task of tables.Splits that are read from `path`; the other arguments are
    those of `make`."""

    def examples(rows, split):
        where = f'{title}, {split}, in {path}'
        scores = targets.scores(tables.column(rows, score, where), where)
        others, groups = (
            tables.column(rows, name, where) if name else None for name in (second, group)
        )
        texts = tables.column(rows, text, where)
        return tasks.examples(texts, others, scores, where, groups)

    parts = tasks.make_splits(splits, examples, seed, zero_shot)
    if second:
        targets.check_template(template, title)
        parts['template'] = template
    return tasks.Task(title, 'scores', 'spearman', **parts)
