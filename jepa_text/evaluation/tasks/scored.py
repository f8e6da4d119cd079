"""Any texts with a number each, or pairs, to be predicted: files as in labeled.py.

pairs.py is for pairs whose vectors are to be as similar as the number says.
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
    title='',
    seed=0,
):
    """`text`, `second` and `score` name the fields; the rest is as in labeled.py."""
    title = title or tables.stem(path)

    def side(rows, split):
        where = f'{title}, {split}, in {path}'
        scores = targets.scores(tables.column(rows, score, where), where)
        others = tables.column(rows, second, where) if second else None
        return tasks.examples(tables.column(rows, text, where), others, scores, where)

    made = tasks.sides(tables.splits(path), side, seed)
    if second:
        targets.check_template(template, title)
        made['template'] = template
    return tasks.Task(title, 'scores', 'spearman', **made)
