"""Extractive question answering: SQuAD, SQuAD 2.0, ReCoRD, and other sets from files.

squad       questions on Wikipedia                          Rajpurkar et al. 2016
squad_v2    the same, with unanswerable questions           Rajpurkar et al. 2018
record      news with an entity left out of a sentence      Zhang et al. 2018

Formats are the JSON of SQuAD, or one question per row (data/sets/tables.py), also that of
ReCoRD in SuperGLUE.
"""

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
    template='Question: {first}\nContext: {second}',
    task='',
    seed=0,
):
    """Makes a question answering task: one of TASKS by `task`, or the set at `path`.

    question, context, answers    names of the fields of rows. Answers are texts with the
                    character at which they start, as {'text': [...], 'answer_start':
                    [...]} or [{'text': ..., 'answer_start': ...}]; or a text or list of
                    texts, each taken at its first occurrence. None or [] is no answer
    template        makes one text of question and context

    Splits are as in labeled.py.
    """
    chosen = tasks.named_set('spans', TASKS, task, path, _Set('', unanswerable=True))
    path = path or chosen.hub
    title = task or tables.stem(path)
    targets.check_template(template, title)
    fields = (question, context, answers)
    splits = tables.splits(path, lambda file: _read(file, fields))

    def examples(rows, split):
        where = f'{title}, {split}, in {path}'
        if not rows:
            raise ValueError(f'{where}: the set has no questions.')
        questions = [
            _question(row, fields, f'{where}, row {n}') for n, row in enumerate(rows, 1)
        ]
        made = [_checked(question, chosen.unanswerable) for question in questions]
        _, questions, contexts, answers = map(list, zip(*made))
        return tasks.Examples(questions, contexts, answers)

    parts = tasks.make_splits(splits, examples, seed)
    _check_hidden(parts, f'{title} in {path}')
    return tasks.Task(title, 'spans', 'f1', **parts, template=template)


def _check_hidden(parts, where):
    for split in ('validation', 'test'):
        hidden = parts[split] is not None and not any(parts[split].target)
        if hidden and any(parts['train'].target):
            raise ValueError(
                f'{where}: no question of {split} has an answer, but some training '
                f'questions have. {_HIDDEN}'
            )


def _read(file, fields):
    """Reads the _Questions of a file, of rows or of SQuAD's paragraphs."""
    questions = []
    for number, row in enumerate(tables.read(file), 1):
        where = f'{file}, row {number}'
        if 'paragraphs' not in row:
            questions.append(_question(row, fields, where))
            continue
        try:
            questions += _of_article(row['paragraphs'] or (), where)
        except (AttributeError, TypeError) as error:
            raise ValueError(
                f"{where}: 'paragraphs' is not as in SQuAD, a list of objects with "
                f'context and qas: {error}. Rename it if it is another field.'
            ) from error
    return questions


def _of_article(paragraphs, where):
    for n, paragraph in enumerate(paragraphs, 1):
        for number, entry in enumerate(paragraph.get('qas') or (), 1):
            at = f'{where}, paragraph {n}, question {number}'
            answers = [] if entry.get('is_impossible') else entry.get('answers')
            context, answers = paragraph.get('context'), _answers(answers, at)
            yield _Question(at, entry.get('question'), context, answers)


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
    answers = value if isinstance(value, list) else [value]
    for answer in answers:
        if isinstance(answer, dict) and 'answer_start' not in answer:
            raise ValueError(
                f'{where}: an answer has the fields {", ".join(answer)}, but needs '
                "'text' and 'answer_start', the number of characters before it."
            )
    if isinstance(value, dict) and isinstance(value.get('text'), list):
        texts, starts = value['text'], value['answer_start']
        starts = [None] * len(texts) if starts is None else starts
        if not isinstance(starts, list) or len(starts) != len(texts):
            raise ValueError(
                f'{where} has {len(texts)} answers, but the starts {starts!r}: give a '
                'list with one start for each answer.'
            )
        return list(zip(starts, texts))
    return [
        (answer.get('answer_start'), answer.get('text'))
        if isinstance(answer, dict)
        else (None, answer)
        for answer in answers
        if answer is not None and answer != ''
    ]


def _checked(question, unanswerable):
    """Returns the _Question with the starts of its answers, if it is valid."""
    where, asked, context, answers = question
    for name, text in (('question', asked), ('context', context)):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(
                f'{where}: the {name} is {text!r}, but must be a text that is not empty.'
            )
        invalid_text.check_unicode(text, f'{where}: the {name}')
    if not answers and not unanswerable:
        raise ValueError(
            f'{where}: the question has no answer, but this set needs one. {_HIDDEN}'
        )
    spans = []
    for given, text in answers:
        start = context.find(str(text)) if given is None else given
        is_valid = isinstance(text, str) and text.strip() and isinstance(start, int)
        if not is_valid or start < 0 or not context.startswith(text, start):
            at = '' if given is None else f' at character {given!r}'
            raise ValueError(
                f'{where}: the context does not contain the answer {text!r}{at}. A start '
                'is the number of characters before the answer: fix or remove it.'
            )
        spans.append((start, text))
    return question._replace(answers=spans)
