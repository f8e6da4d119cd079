"""Corpus sources, one per module: make(split, **section) returns the documents."""

import os
from pathlib import Path

from jepa_text.data.corpora import corpus, invalid_text
from jepa_text.settings import resolve

# {what a file's name contains: its source}; all others are plain text.
KINDS = dict.fromkeys(('.json', '.ndjson'), 'jsonl')
KINDS |= dict.fromkeys(('.parquet', '.arrow'), 'parquet')
KINDS |= dict.fromkeys(('.csv', '.tsv'), 'csv')


def section_of(path):
    """Returns the section of the source of a file or folder, by the names of its files.

    >>> section_of('texts/a.csv.gz')
    {'name': 'csv', 'path': 'texts/a.csv.gz'}
    """
    path = os.fspath(path)
    if Path(path).is_dir():
        files = sorted(p.name for p in Path(path).rglob('*'))
    else:  # a pattern stays whole
        files = [Path(path).name if Path(path).is_file() else path]
    # A folder with some text has its other files left out, such as tables beside it.
    name = next((f for f in files if '.txt' in f.lower()), (files or [''])[0])
    kinds = (kind for end, kind in KINDS.items() if end in name.lower())
    return {'name': next(kinds, 'text'), 'path': path}


def build(section, split):
    """Returns the documents of a section's source; those of a user's own are checked.

    Raises UserCodeError, when it is read, for a document that is not {'text': str}.
    """
    documents = resolve.build('data/sources', section, split=split)
    if '.' in section['name'] and not isinstance(documents, corpus.Corpus):
        return _checked(section['name'], documents)
    return documents


def _checked(name, documents):
    with resolve.user_faults([name]):
        for number, document in enumerate(documents):
            is_text = isinstance(document, dict) and isinstance(document.get('text'), str)
            if not is_text and not isinstance(document, invalid_text.Bad):
                expected = "{'text': a string, ...}"
                resolve.reject_user_code(
                    name, f'document {number} is {document!r}, not {expected}.'
                )
            yield document
