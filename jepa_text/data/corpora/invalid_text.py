"""Documents that are none: bytes that are no text, and text with what no text has.

A source gives a Bad in the place of such a document, and goes on with the next one. Who
reads decides: `good` raises, or has it counted and named. A file that is cut, a
column that is missing and a read that fails are no matter of a document: those are raised
by the source.
"""

import functools
from typing import NamedTuple

NOT_UTF8, NUL, SURROGATE = 'not UTF-8', 'a NUL in it', 'half a surrogate pair in it'
NO_TEXT = 'null, not text'
ERROR, SKIP = 'error', 'skip'
CHUNK = 2**20  # characters: a long text is not copied as a whole
NAME = '{}, document {:,}'.format  # of a source and a number from 1


class Bad(NamedTuple):
    """What stands in the place of a document: why, told in a sentence, and which it is:
    'FILE, document N'."""

    reason: str
    told: str
    where: str = ''

    def error(self):
        """What is raised where bad documents are not left out."""
        remedy = f"With bad_documents='{SKIP}' it is left out, counted and named."
        return ValueError(f'{self.told} {remedy}')


def document(row, field, where):
    """The dict of a row with `text` from its `field`, or the Bad where that is null, or
    the row one; ValueError where there is no such field, or a number in it."""
    if isinstance(row, Bad):
        return row
    remedy = 'Name the one that holds the text, such as --config.prepare.source.field=...'
    if field not in row:
        known = ', '.join(row) or 'none'
        raise ValueError(f'{where} has no field {field!r}; it has: {known}. {remedy}')
    text = row[field]
    if isinstance(text, str):
        return row | {'text': text}
    told = f'{where}: the field {field!r} is {type(text).__name__}, not a string.'
    if text is None:
        return Bad(NO_TEXT, told)
    raise ValueError(f'{told} {remedy}')


def checked(document, name):
    """A dict with `text`, or a Bad, named; `name()` tells which document it is."""
    if isinstance(document, Bad):
        return document if document.where else document._replace(where=name())
    if reason := of(document['text']):
        where = name()
        return Bad(reason, f'{where}: {TOLD[reason]}', where)
    return document


TOLD = {
    NUL: 'there is a NUL in it, so it is binary or UTF-16. Convert or remove it.',
    SURROGATE: 'it has half of a surrogate pair, which UTF-8 cannot hold. Mend or remove '
    'it.',
}


def of(text):
    """Why a text is none, '' if it is one."""
    if '\0' in text:
        return NUL
    if not text.isascii():
        try:
            for start in range(0, len(text), CHUNK):
                text[start : start + CHUNK].encode('utf-8')
        except UnicodeEncodeError:
            return SURROGATE
    return ''


def with_bad(documents, source):
    """What a source gives, checked, a Bad in the place of each bad document; `source` is
    what to call it."""
    own = getattr(documents, 'with_bad', None)
    for number, document in enumerate(own() if own else documents, 1):
        yield checked(document, functools.partial(NAME, source, number))


def good(documents, leave=None):
    """The documents alone. Raises ValueError for a Bad, unless there is `leave`, which is
    called with each."""
    for document in documents:
        if not isinstance(document, Bad):
            yield document
        elif leave is None:
            raise document.error()
        else:
            leave(document)
