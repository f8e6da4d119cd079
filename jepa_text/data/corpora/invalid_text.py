"""Invalid documents: bytes that are not UTF-8, and strings that are not proper text.

A source yields a Bad in place of such a document and continues with the next one. The
caller of `valid` decides whether to raise or to count and report it. Truncated files,
missing columns and failed reads are errors of the source, which raises them.
"""

import functools
from typing import NamedTuple

NOT_UTF8, NUL, SURROGATE = 'not UTF-8', 'a NUL in it', 'half a surrogate pair in it'
NO_TEXT = 'null, not text'
ERROR, SKIP = 'error', 'skip'
CHUNK = 2**20  # characters encoded at a time
NAME = '{}, document {:,}'.format  # of a source, and a number from 1


class Bad(NamedTuple):
    """An invalid document: the kind of fault, a message with details, and which document
    it is: 'FILE, document N'."""

    reason: str
    message: str
    where: str = ''

    def error(self):
        """Returns the ValueError to raise if bad documents are not skipped."""
        remedy = f"With bad_documents='{SKIP}' it is skipped, counted and reported."
        return ValueError(f'{self.message} {remedy}')


def document(row, field, where):
    """Returns the row with `text` from its `field`, or a Bad if that is null or the row
    is one. Raises ValueError if the field is missing or not a string."""
    if isinstance(row, Bad):
        return row
    remedy = 'Name the text field, for example with --config.prepare.source.field=...'
    if field not in row:
        known = ', '.join(row) or 'none'
        raise ValueError(f'{where} has no field {field!r}; it has: {known}. {remedy}')
    text = row[field]
    if isinstance(text, str):
        return row | {'text': text}
    message = f'{where}: the field {field!r} is {type(text).__name__}, not a string.'
    if text is None:
        return Bad(NO_TEXT, message)
    raise ValueError(f'{message} {remedy}')


def check(document, describe):
    """Returns a dict with `text` unchanged, or a Bad if its text is invalid. A Bad gets
    the name of the document, which `describe()` returns."""
    if isinstance(document, Bad):
        return document if document.where else document._replace(where=describe())
    if reason := reason_of(document['text']):
        where = describe()
        return Bad(reason, f'{where}: {MESSAGES[reason]}', where)
    return document


MESSAGES = {
    NUL: 'it contains a NUL character, so it is binary or UTF-16. Convert or remove it.',
    SURROGATE: 'it contains half of a surrogate pair, which UTF-8 cannot encode. Fix or '
    'remove it.',
}


def check_unicode(text, where):
    """Raises ValueError for half of a surrogate pair, which no tokenizer can read."""
    if reason_of(text) == SURROGATE:
        raise ValueError(f'{where}: {text!r}: {MESSAGES[SURROGATE]}')


def reason_of(text):
    """Returns why a text is invalid, '' if it is valid."""
    if '\0' in text:
        return NUL
    if not text.isascii():
        try:
            for _ in encoded(text):
                pass
        except UnicodeEncodeError:
            return SURROGATE
    return ''


def encoded(text):
    """Yields the UTF-8 of a text in chunks, so that a long one is not copied as a whole;
    bytes are only cut."""
    for start in range(0, len(text), CHUNK):
        part = text[start : start + CHUNK]
        yield part if isinstance(part, bytes) else part.encode('utf-8')


def with_bad(documents, source):
    """Yields the checked documents of a source, a Bad in place of each bad one; `source`
    is its name in messages."""
    own = getattr(documents, 'with_bad', None)
    for number, document in enumerate(own() if own else documents, 1):
        yield check(document, functools.partial(NAME, source, number))


def valid(documents, skip=None):
    """Yields the valid documents. For a Bad, `skip` is called with it, or if None,
    ValueError is raised."""
    for document in documents:
        if not isinstance(document, Bad):
            yield document
        elif skip is None:
            raise document.error()
        else:
            skip(document)
