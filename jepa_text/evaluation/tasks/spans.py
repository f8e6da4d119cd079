"""Extractive question answering: SQuAD, SQuAD 2.0, ReCoRD, and other sets from files.

squad       questions on Wikipedia                          Rajpurkar et al. 2016
squad_v2    the same, with unanswerable questions           Rajpurkar et al. 2018
record      news with an entity left out of a sentence      Zhang et al. 2018

Formats are the JSON of SQuAD and ReCoRD, or one question per row (data/sets/tables.py).
"""

import warnings
from typing import NamedTuple

from jepa_text.data.corpora import invalid_text
from jepa_text.data.sets import tables
from jepa_text.evaluation.sets import targets
from jepa_text.evaluation.sets import task as tasks

_HIDDEN = (
    'If the answers of the test set are hidden, remove its file: the validation set is '
    'then the test set.'
)


class _Set(NamedTuple):
    """Name on the hub, and whether questions may have no answer."""

    hub: str
    unanswerable: bool = False


TASKS = {
    'squad': _Set('hub:rajpurkar/squad'),
    'squad_v2': _Set('hub:rajpurkar/squad_v2', unanswerable=True),
    'record': _Set('hub:hgissbkh/record'),
}


class _Question(NamedTuple):
    """A question with `answers` (start, text), where start is None if unknown."""

    where: str
    question: str
    context: str
    answers: list


def make(
    path='',
    question='question',
    context='context',
    answers='answers',
    no_answer='',
    ignore_spaces=False,
    skip_unmatched=False,
    template='Question: {first}\nContext: {second}',
    title='',
    task='',
    seed=0,
):
    """Makes a question answering task: one of TASKS by `task`, or the set at `path`.

    question, context, answers    names of the fields of rows. Answers are texts with the
                    character at which they start, as {'text': [...], 'answer_start':
                    [...]} or [{'text': ..., 'answer_start': ...}]; or a text or list of
                    texts, each taken at its first occurrence. None or [] is no answer
    no_answer       a text that stands for no answer
    skip_unmatched  drop answers that do not occur in the context, and questions without
                    another answer, and warn of how many; by default they are an error
    ignore_spaces   match answers whose spaces differ from those of the context; the
                    matching part of the context is then the answer
    template        makes one text of question and context

    Splits are as in labeled.py.
    """
    chosen = tasks.named_set('spans', TASKS, task, path, _Set('', unanswerable=True))
    path = path or chosen.hub
    title = title or task or tables.stem(path)
    targets.check_template(template, title)
    fields = (question, context, answers)
    splits = tables.splits(path, lambda file: _read(file, fields))

    def examples(rows, split):
        where = f'{title}, {split}, in {path}'
        questions = [
            _question(row, fields, f'{where}, row {n}') for n, row in enumerate(rows, 1)
        ]
        if no_answer:
            questions = [_without_answer(q, no_answer) for q in questions]
        for question in questions:
            _check_question(question, chosen.unanswerable)
        return _examples(questions, ignore_spaces, skip_unmatched, where)

    parts = tasks.make_splits(splits, examples, seed)
    _check_hidden(parts, f'{title} in {path}')
    return tasks.Task(title, 'spans', 'f1', **parts, template=template)


def _check_hidden(parts, where):
    """Raises ValueError if a split has no answers at all, i.e. if they are hidden."""
    for split in ('validation', 'test'):
        hidden = parts[split] is not None and not any(parts[split].target)
        if hidden and any(parts['train'].target):
            raise ValueError(
                f'{where}: no question of {split} has an answer, but some training '
                f'questions have. {_HIDDEN}'
            )


def _read(file, fields):
    """Reads the _Questions of a file, of rows or of paragraphs."""
    questions = []
    for number, row in enumerate(tables.read(file), 1):
        where = f'{file}, row {number}'
        if 'paragraphs' in row:
            for n, paragraph in enumerate(row['paragraphs'] or (), 1):
                context = paragraph.get('context')
                questions += _nested(paragraph, context, f'{where}, paragraph {n}')
        elif 'qas' in row and isinstance(row.get('passage'), dict):
            questions += _nested(row, row['passage'].get('text'), where)
        else:
            questions.append(_question(row, fields, where))
    return questions


def _nested(paragraph, context, where):
    """Yields the questions on a paragraph of SQuAD, or of ReCoRD, which has a `query`."""
    for number, entry in enumerate(paragraph.get('qas') or [], 1):
        text = entry.get('question', entry.get('query'))
        answers = [] if entry.get('is_impossible') else entry.get('answers')
        entry_where = f'{where}, question {number}'
        yield _Question(entry_where, text, context, _answers(answers, entry_where))


def _question(row, fields, where):
    """Returns the _Question of a row; also reads SuperGLUE's form of ReCoRD."""
    if isinstance(row, _Question):
        return row
    if {'passage', 'query', 'entity_spans'} <= set(row) and fields[1] not in row:
        spans = row['entity_spans']
        starts = dict(reversed([*zip(spans['text'], spans['start'])]))
        answers = [(starts.get(text), text) for text in row['answers']]
        return _Question(where, row['query'], row['passage'], answers)
    question, context, answers = (tables.value(row, name, where) for name in fields)
    return _Question(where, question, context, _answers(answers, where))


def _answers(value, where):
    """Returns [(start or None, text)] of any form of answers that `make` accepts."""
    if isinstance(value, dict) and isinstance(value.get('text'), list):
        texts = value['text']
        starts = value.get('answer_start', value.get('start'))
        starts = [None] * len(texts) if starts is None else starts
        if len(starts) != len(texts):
            raise ValueError(
                f'{where} has {len(texts)} answers, but {len(starts)} starts: give one '
                'start for each answer.'
            )
        return [(_start(start, where), text) for start, text in zip(starts, texts)]
    answers = []
    for answer in value if isinstance(value, list) else [value]:
        if isinstance(answer, dict):
            start = answer.get('answer_start', answer.get('start'))
            answers.append((_start(start, where), answer.get('text')))
        elif answer:
            answers.append((None, answer))
    return answers


def _start(value, where):
    """The character at which an answer starts: an integer, also as text or a float."""
    try:
        if value is None or float(value) == int(float(value)):
            return value if value is None else int(float(value))
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(
        f'{where}: an answer starts at {value!r}, but the start must be an integer, the '
        'number of characters before it; without one, its first occurrence is taken.'
    )


def _without_answer(question, no_answer):
    kept = [(start, text) for start, text in question.answers if text != no_answer]
    return question._replace(answers=kept)


def _check_question(question, unanswerable):
    where = question.where
    for name, text in (('question', question.question), ('context', question.context)):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(
                f'{where}: the {name} is {text!r}, but must be a text that is not empty.'
            )
        invalid_text.check_unicode(text, f'{where}: the {name}')
    if not question.answers and not unanswerable:
        raise ValueError(
            f'{where}: the question has no answer, but this set needs one. {_HIDDEN}'
        )


def _examples(questions, ignore_spaces, skip_unmatched, where):
    kept, missed = [], []
    for question in questions:
        spans = [
            _span(question.context, *answer, ignore_spaces) for answer in question.answers
        ]
        for span, (start, text) in zip(spans, question.answers):
            if span is None:
                place = '' if start is None else f' at character {start}'
                missed.append(
                    f'{question.where}: the context does not contain the answer '
                    f'{text!r}{place}'
                )
        matched = [span for span in spans if span is not None]
        if matched or not question.answers:
            kept.append(question._replace(answers=matched))
    if missed and not skip_unmatched:
        raise ValueError(
            f'{missed[0]}; {len(missed):,} such answers in {where}. Fix it, or set '
            'ignore_spaces=True if a text is tokenized, or skip_unmatched=True to drop '
            'such answers.'
        )
    if missed:
        warnings.warn(
            f'{where}: {len(missed):,} answers do not occur in their contexts and are '
            f'dropped, with {len(questions) - len(kept):,} questions; the first: '
            f'{missed[0]}.',
            stacklevel=2,
        )
    if not kept:
        raise ValueError(f'{where}: the set has no questions.')
    _, questions, contexts, answers = map(list, zip(*kept))
    return tasks.Examples(questions, contexts, answers)


def _span(context, start, text, ignore_spaces):
    """Returns (start, text) of an answer in the context, or None if it does not occur."""
    if not isinstance(text, str) or not text.strip():
        return None
    if not ignore_spaces:
        start = context.find(text) if start is None else start
        is_match = isinstance(start, int) and start >= 0
        is_match = is_match and context.startswith(text, start)
        return (start, text) if is_match else None
    # Match without spaces; of several matches, use the one nearest to `start`.
    positions = [n for n, letter in enumerate(context) if not letter.isspace()]
    letters, wanted = ''.join(context.split()), ''.join(text.split())
    matches, at = [], letters.find(wanted)
    while at >= 0:
        matches.append((positions[at], positions[at + len(wanted) - 1] + 1))
        at = letters.find(wanted, at + 1)
    if not matches:
        return None
    begin, end = min(matches, key=lambda match: abs(match[0] - (start or 0)))
    return begin, context[begin:end]
