"""A question about a text, and the part of it that answers; named sets, and one's own.

squad       questions on Wikipedia                          Rajpurkar et al. 2016
squad_v2    the same, and some that it does not answer      Rajpurkar et al. 2018
record      news with an entity left out of a sentence      Zhang et al. 2018

Files: SQuAD's and ReCoRD's own JSON, or a question a row (data/sets/tables.py).
"""

import warnings
from typing import NamedTuple

from jepa_text.data.sets import tables
from jepa_text.evaluation.sets import targets
from jepa_text.evaluation.sets import task as tasks

_HIDDEN = (
    'Are the answers of a test set hidden? Then leave its file out, and the validation '
    'set is the test set.'
)


class _Set(NamedTuple):
    """Where it is on the hub; may a question have no answer?"""

    hub: str
    unanswerable: bool = False


TASKS = {
    'squad': _Set('hub:rajpurkar/squad'),
    'squad_v2': _Set('hub:rajpurkar/squad_v2', unanswerable=True),
    'record': _Set('hub:hgissbkh/record'),
}


class _Question(NamedTuple):
    """`answers`: (start, text), with None for a start that is to be found."""

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
    """`task` is one of TASKS, or '' for a set of one's own, which is at `path`.

    `question`, `context` and `answers` name the fields of rows. Answers are texts with
    the character at which they start, as {'text': [...], 'answer_start': [...]} or
    [{'text': ..., 'answer_start': ...}], or a text or list of texts, each then taken
    where it is first; none if there is no answer, or if it is the text `no_answer`. An
    answer that is not there in the context is an error, or with `skip_unmatched` left
    out, and its question if it has no other; how many is a warning. With `ignore_spaces`
    an answer matches whatever spaces it lacks or has more than the context, of which the
    part that it matches is then the answer.
    `template` makes one text of question and context. Splits are as in labeled.py.
    """
    chosen = tasks.named_set('spans', TASKS, task, path, _Set('', unanswerable=True))
    path = path or chosen.hub
    title = title or task or tables.stem(path)
    targets.check_template(template, title)
    fields = (question, context, answers)
    found = tables.splits(path, lambda file: _read(file, fields))

    def side(rows, split):
        where = f'{title}, {split}, in {path}'
        read = [
            _question(row, fields, f'{where}, row {n}') for n, row in enumerate(rows, 1)
        ]
        if no_answer:
            read = [_without(one, no_answer) for one in read]
        for one in read:
            _check_question(one, chosen.unanswerable)
        return _examples(read, ignore_spaces, skip_unmatched, where)

    made = tasks.sides(found, side, seed)
    _check_hidden(made, f'{title} in {path}')
    return tasks.Task(title, 'spans', 'f1', **made, template=template)


def _check_hidden(made, where):
    """Sets with secret answers have none at all in a test set."""
    for split in ('validation', 'test'):
        hidden = made[split] is not None and not any(made[split].target)
        if hidden and any(made['train'].target):
            raise ValueError(
                f'{where}: no question of {split} has an answer, but some of those that '
                f'are learned from have. {_HIDDEN}'
            )


def _read(file, fields):
    """The _Questions of a file, of rows or of paragraphs."""
    made = []
    for number, row in enumerate(tables.read(file), 1):
        where = f'{file}, row {number}'
        if 'paragraphs' in row:
            for place, one in enumerate(row['paragraphs'] or (), 1):
                made += _nested(one, one.get('context'), f'{where}, paragraph {place}')
        elif 'qas' in row and isinstance(row.get('passage'), dict):
            made += _nested(row, row['passage'].get('text'), where)
        else:
            made.append(_question(row, fields, where))
    return made


def _nested(paragraph, context, where):
    """SQuAD's questions on a paragraph, or ReCoRD's, which has a `query`."""
    for number, one in enumerate(paragraph.get('qas') or [], 1):
        text = one.get('question', one.get('query'))
        found = [] if one.get('is_impossible') else one.get('answers')
        at = f'{where}, question {number}'
        yield _Question(at, text, context, _answers(found, at))


def _question(row, fields, where):
    """The _Question of a row; ReCoRD's as SuperGLUE has it, too."""
    if isinstance(row, _Question):
        return row
    if {'passage', 'query', 'entity_spans'} <= set(row) and fields[1] not in row:
        spans = row['entity_spans']
        starts = dict(reversed([*zip(spans['text'], spans['start'])]))
        found = [(starts.get(text), text) for text in row['answers']]
        return _Question(where, row['query'], row['passage'], found)
    question, context, found = (tables.value(row, name, where) for name in fields)
    return _Question(where, question, context, _answers(found, where))


def _answers(found, where):
    """[(start or None, text)] of what `make` says answers may be."""
    if isinstance(found, dict) and isinstance(found.get('text'), list):
        starts = found.get('answer_start', found.get('start'))
        starts = [None] * len(found['text']) if starts is None else starts
        if len(starts) != len(found['text']):
            raise ValueError(
                f'{where} has {len(found["text"])} answers and {len(starts)} starts: '
                'each answer has one.'
            )
        return list(zip(starts, found['text']))
    some = found if isinstance(found, list) else [found]
    made = []
    for one in some:
        if isinstance(one, dict):
            made.append((one.get('answer_start', one.get('start')), one.get('text')))
        elif one:
            made.append((None, one))
    return made


def _without(one, no_answer):
    kept = [(start, text) for start, text in one.answers if text != no_answer]
    return one._replace(answers=kept)


def _check_question(one, unanswerable):
    for what, text in (('question', one.question), ('context', one.context)):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f'{one.where}: the {what} is {text!r}, and must be a text.')
    if not one.answers and not unanswerable:
        raise ValueError(
            f'{one.where}: no answer, but every question here has one. {_HIDDEN}'
        )


def _examples(read, ignore_spaces, skip_unmatched, where):
    kept, missed = [], []
    for one in read:
        spans = [_span(one.context, *answer, ignore_spaces) for answer in one.answers]
        for span, (start, text) in zip(spans, one.answers):
            if span is None:
                place = '' if start is None else f' at character {start}'
                missed.append(f'{one.where}: the answer {text!r} is not there{place}')
        matched = [span for span in spans if span is not None]
        if matched or not one.answers:
            kept.append(one._replace(answers=matched))
    if missed and not skip_unmatched:
        raise ValueError(
            f'{missed[0]} in its context; {len(missed):,} of {where} are not. Mend it, '
            'or give ignore_spaces=True where a text is tokenized, or '
            'skip_unmatched=True to leave such answers out.'
        )
    if missed:
        warnings.warn(
            f'{where}: {len(missed):,} answers are not in their contexts and left out, '
            f'and {len(read) - len(kept):,} questions with them; the first: {missed[0]}.',
            stacklevel=2,
        )
    if not kept:
        raise ValueError(f'{where}: there is no question.')
    _, questions, contexts, answers = map(list, zip(*kept))
    return tasks.Examples(questions, contexts, answers)


def _span(context, start, text, ignore_spaces):
    """(start, text) of an answer as it is in the context; None if it is not there."""
    if not isinstance(text, str) or not text.strip():
        return None
    if start is None and not ignore_spaces:
        start = context.find(text)
    if not ignore_spaces:
        is_there = isinstance(start, int) and start >= 0
        is_there = is_there and context[start : start + len(text)] == text
        return (start, text) if is_there else None
    # Places of what is no space; of several matches, the one nearest to `start`.
    places = [n for n, letter in enumerate(context) if not letter.isspace()]
    squeezed, wanted = ''.join(context.split()), ''.join(text.split())
    found, at = [], squeezed.find(wanted)
    while at >= 0:
        found.append((places[at], places[at + len(wanted) - 1] + 1))
        at = squeezed.find(wanted, at + 1)
    if not found:
        return None
    begin, end = min(found, key=lambda one: abs(one[0] - (start or 0)))
    return begin, context[begin:end]
