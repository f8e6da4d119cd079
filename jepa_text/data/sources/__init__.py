"""Corpus sources, one per module: make(split, **section) returns the documents."""

import importlib
import os

from jepa_text.data.corpora import corpus, invalid_text
from jepa_text.files import addresses, listing
from jepa_text.settings import resolve

KINDS = 'text', 'jsonl', 'csv', 'parquet'


def section_of(path):
    """Returns the section of the source of a file, folder or pattern, by the names of its
    files, or of 'hub:NAME' and 'tfds:NAME'. Raises ValueError for files of several kinds,
    and as `listing.expand` does for a folder without a text.

    >>> section_of('texts/a.csv.gz'), section_of('hub:a/b')
    ({'name': 'csv', 'path': 'texts/a.csv.gz'}, {'name': 'hub', 'path': 'hub:a/b'})
    """
    path = os.path.expanduser(path)
    if path.startswith(('hub:', 'tfds:')):
        return {'name': path.partition(':')[0], 'path': path}
    # The same folder for the config of a run, with or without a slash.
    path = path.rstrip('/') or path
    modules = {kind: importlib.import_module(f'{__name__}.{kind}') for kind in KINDS}
    endings = {kind: module.SUFFIXES for kind, module in modules.items()}
    endings['json'] = modules['jsonl'].JSON
    known = sum(endings.values(), ())
    names = [path]
    is_group = addresses.is_address(path) or any(sign in path for sign in '*?[')
    if os.path.isdir(path) or (is_group and not addresses.ends_in(path, known)):
        names = [file.path for file in listing.expand(path, known).files]
    found = {}
    for name in names:
        kinds = (kind for kind in endings if addresses.ends_in(name, endings[kind]))
        found.setdefault(next(kinds, 'text'), name)
    if len(found) > 1:
        found.pop('json', None)  # the properties of the other files
    if len(found) > 1:
        raise ValueError(
            f'{path} has files of several kinds: {", ".join(found.values())}. Choose one '
            f"kind by a pattern, such as '{path}/**/*{endings[next(iter(found))][0]}'."
        )
    kind = next(iter(found))
    return {'name': 'jsonl' if kind == 'json' else kind, 'path': path}


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
