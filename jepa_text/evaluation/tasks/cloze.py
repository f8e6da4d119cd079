"""Any texts with one word hidden, and that word: files as in labeled.py.

{"text": "The whale is [MASK].", "answer": "white", "candidates": ["white", "red"]}
"""

from jepa_text.data.sets import tables
from jepa_text.evaluation import cloze
from jepa_text.evaluation.sets import task as tasks

SEPARATOR = '|'  # of candidates in a cell


CANDIDATES = 'candidates'


def make(path, text='text', answer='answer', candidates=CANDIDATES, title='', seed=0):
    """`text`, `answer` and `candidates` name the fields. Of all rows or of none there are
    candidates, a list or, in a cell, set apart by '|'; without, every token of the
    vocabulary is one. Nothing is learned: of one file, 40 % are the test set, dealt by
    `seed`, as of every set. `title` is the task's in tables (the file's name)."""
    title = title or tables.stem(path)
    found = tables.splits(path)
    there = [row for rows in found[:3] if rows for row in rows]
    # One that is named must be there.
    given = candidates != CANDIDATES or any(row.get(candidates) for row in there)

    def side(rows, split):
        where = f'{title}, {split}, in {path}'
        texts, answers = (tables.column(rows, name, where) for name in (text, answer))
        others = tables.column(rows, candidates, where) if given else [None] * len(rows)
        made = [
            _question(*question, given, f'{where}, row {number}')
            for number, question in enumerate(zip(texts, answers, others), 1)
        ]
        if len(made) < 4:
            raise ValueError(f'{where}: {len(made)} rows, but at least four are needed.')
        return tasks.Examples([one for one, _ in made], None, [two for _, two in made])

    made = tasks.sides(found, side, seed)
    return tasks.Task(title, 'cloze', 'accuracy', **made, zero_shot=True)


def _question(text, answer, others, given, where):
    """(the text with its mask, (answer, candidates in their alphabet))."""
    if not isinstance(text, str):
        raise ValueError(f'{where}: the text is {text!r}, and must be a text.')
    cloze.halves(text, where)
    if not given:
        return text, (_word(answer, where), ())
    words = others.split(SEPARATOR) if isinstance(others, str) else others
    if not isinstance(words, list | tuple) or len(words) < 2:
        raise ValueError(
            f'{where}: the candidates are {others!r}: give two or more, a list or, in a '
            f'cell, set apart by {SEPARATOR!r}; of all rows, or of none.'
        )
    words, answer = [_word(word, where) for word in words], _word(answer, where)
    if answer not in words or len(set(words)) < len(words):
        raise ValueError(
            f'{where}: the answer is {answer!r}, and the candidates are '
            f'{", ".join(map(repr, words))}: it must be one of them, each once.'
        )
    return text, (answer, tuple(sorted(words)))


def _word(value, where):
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f'{where}: {value!r} is no word to stand at the mask.')
    return value.strip()
