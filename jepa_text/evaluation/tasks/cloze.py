"""Cloze tasks from files: texts with one masked word, its answer, and maybe candidates.

{"text": "The whale is [MASK].", "answer": "white", "candidates": ["white", "red"]}

File formats are those of labeled.py.
"""

from jepa_text.data.sets import tables
from jepa_text.evaluation import cloze
from jepa_text.evaluation.sets import task as tasks

SEPARATOR = '|'  # between candidates in a table cell
CANDIDATES = 'candidates'


def make(path, text='text', answer='answer', candidates=CANDIDATES):
    """Makes a cloze task, which is answered without training: all rows of a single file.

    text, answer, candidates    names of the fields. All rows or none have candidates, as
                                a list or, in a table cell, separated by '|'; without,
                                every token of the vocabulary is a candidate
    """
    title = tables.stem(path)
    splits = tables.splits(path, zero_shot=True)
    rows = [row for split in splits[:3] if split for row in split]
    # A field that is named explicitly must exist.
    has_candidates = candidates != CANDIDATES or any(row.get(candidates) for row in rows)

    def examples(rows, split):
        where = f'{title}, {split}, in {path}'
        fields = (text, answer, candidates if has_candidates else '')
        texts, answers, others = tables.columns(rows, fields, where)
        if len(rows) < 4:
            raise ValueError(f'{where}: {len(rows)} rows, but at least four are needed.')
        questions = [
            _question(*question, has_candidates, f'{where}, row {number}')
            for number, question in enumerate(
                zip(texts, answers, others or [None] * len(rows)), 1
            )
        ]
        texts, targets = map(list, zip(*questions))
        return tasks.Examples(texts, None, targets)

    parts = tasks.make_splits(splits, examples, zero_shot=True)
    return tasks.Task(title, 'cloze', 'accuracy', **parts, zero_shot=True)


def _question(text, answer, others, has_candidates, where):
    """Returns (text with one mask, (answer, alphabetically sorted candidates))."""
    if not isinstance(text, str):
        raise ValueError(f'{where}: the text is {text!r}, but must be a string.')
    cloze.split_at_mask(text, where)
    if not has_candidates:
        return text, (_word(answer, where), ())
    words = others.split(SEPARATOR) if isinstance(others, str) else others
    if not isinstance(words, list | tuple) or len(words) < 2:
        raise ValueError(
            f'{where}: the candidates are {others!r}: give two or more, as a list or, in '
            f'a cell, separated by {SEPARATOR!r}; for all rows or for none.'
        )
    words, answer = [_word(word, where) for word in words], _word(answer, where)
    if answer not in words or len(set(words)) < len(words):
        raise ValueError(
            f'{where}: the answer is {answer!r}, but the candidates are '
            f'{", ".join(map(repr, words))}: they must be unique and contain it.'
        )
    return text, (answer, tuple(sorted(words)))


def _word(value, where):
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f'{where}: {value!r} is not a word, so it cannot be masked.')
    return value.strip()
