"""Invalid documents: bytes that are not UTF-8, and strings that are not proper text.

A source yields a Bad in place of such a document and continues with the next one, so that
it can be named, counted and skipped. Truncated files, missing columns and failed reads
are errors of the source, which raises them.
"""

import functools
from typing import NamedTuple

NOT_UTF8, NUL, NO_TEXT = 'not UTF-8', 'a NUL in it', 'null, not text'
NAME = '{}, document {:,}'.format  # of a source, and a number from 1


class Bad(NamedTuple):
    """An invalid document: the kind of fault, and which it is: 'FILE, document N'."""

    reason: str
    where: str = ''


def document(row, field, where):
    """Returns the row with `text` from its `field`, or a Bad if that is null or the row
    is one. Raises ValueError if the field is missing or not text."""
    if isinstance(row, Bad):
        return row
    remedy = 'Name the text field, for example with --config.prepare.source.field=...'
    if field not in row:
        known = ', '.join(row) or 'none'
        raise ValueError(f'{where} has no field {field!r}; it has: {known}. {remedy}')
    text = row[field]
    if isinstance(text, bytes):
        try:
            text = text.decode('utf-8')
        except UnicodeDecodeError:
            return Bad(NOT_UTF8)
    if isinstance(text, str):
        return row | {'text': text}
    if text is None:
        return Bad(NO_TEXT)
    kind = type(text).__name__
    raise ValueError(f'{where}: the field {field!r} is {kind}, not a string. {remedy}')


def check(document, describe):
    """Returns a dict with `text` unchanged, or a Bad if its text is invalid. A Bad gets
    the name of the document, which `describe()` returns."""
    if isinstance(document, Bad):
        return document if document.where else Bad(document.reason, describe())
    reason = reason_of(document['text'])
    return Bad(reason, describe()) if reason else document


def check_unicode(text, where):
    """Raises ValueError for half of a surrogate pair, which no tokenizer can read."""
    if reason_of(text) == NOT_UTF8:
        raise ValueError(
            f'{where}: {text!r}: it contains half of a surrogate pair, which UTF-8 '
            'cannot encode. Fix or remove it.'
        )


def reason_of(text):
    """Returns why a text is invalid, '' if it is valid."""
    if '\0' in text:
        return NUL
    if not text.isascii():
        try:
            text.encode('utf-8')
        except UnicodeEncodeError:
            return NOT_UTF8
    return ''


def with_bad(documents, describe):
    """Yields the checked documents, a Bad in place of each bad one; `describe(number)`
    returns the name of a document, by its number from 1."""
    for number, document in enumerate(documents, 1):
        yield check(document, functools.partial(describe, number))


def valid(documents, source, skip=lambda bad: None):
    """Yields the valid documents of a source, and calls `skip` with a Bad for each other
    one; `source` is its name in messages."""
    for document in with_bad(documents, functools.partial(NAME, source)):
        if isinstance(document, Bad):
            skip(document)
        else:
            yield document
