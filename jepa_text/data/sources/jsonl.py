"""JSON lines: a .jsonl or .jsonl.gz file, or a folder of such files, in UTF-8.

    config.prepare.source = dict(name='jsonl', path='corpus.jsonl.gz', field='text')

One line is one document; what it says besides the text (author, year, label) is kept.
"""

import functools
import json

from jepa_text.data import finding, reading

SUFFIXES = ('.jsonl', '.jsonl.gz', '.ndjson', '.ndjson.gz')


def make(split, path, field='text', heldout_every=100):
    """The documents of a split: the objects of the lines, `text` taken from `field`.

    About one in `heldout_every` is held out, by its text (see data/reading.py); blank
    lines are passed over. Raises FileNotFoundError for a missing path, and ValueError
    with file and line for what is not JSON, not an object, or has no text in `field`.
    """
    reading.check_split(split, heldout_every)
    found = finding.find(path, SUFFIXES)
    given = dict(field=field, split=split, heldout_every=heldout_every)
    return finding.Corpus(found, functools.partial(_documents, **given))


def _documents(files, field, split, heldout_every):
    for file in files:
        for number, line in reading.lines(file):
            if not line.strip():
                continue
            document = _parse(line, field, f'{file}, line {number}')
            if reading.in_split(document['text'], split, heldout_every):
                yield document


def _parse(line, field, where):
    try:
        document = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(
            f'{where} is not JSON: {error.msg} at column {error.colno}. Each line must '
            'be one JSON object; mend or remove the line.'
        ) from error
    except RecursionError as error:
        raise ValueError(
            f'{where} is nested too deeply to be read as JSON ({error}). A line is one '
            f'flat object, such as {{"{field}": "..."}}; mend or remove it.'
        ) from error
    if not isinstance(document, dict):
        raise ValueError(
            f'{where} is a JSON {type(document).__name__}, not an object. Each line must '
            f'look like {{"{field}": "..."}}.'
        )
    if field not in document:
        raise ValueError(
            f'{where} has no field {field!r}; it has: {", ".join(document) or "none"}. '
            'Name the one that holds the text, such as --config.prepare.source.field=...'
        )
    text = document[field]
    if not isinstance(text, str):
        raise ValueError(
            f'{where}: the field {field!r} is {type(text).__name__}, not a string. '
            'Remove the line or turn its value into text.'
        )
    # JSON may spell half of a surrogate pair, which no UTF-8 text can hold.
    if not text.isascii():
        text = text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')
    return document | {'text': text}
