"""Plain text: a .txt or .txt.gz file, or a folder of such files, in UTF-8.

config.prepare.source = dict(name='text', path='books/', documents='file')
"""

import functools

from jepa_text.data import finding, reading

SUFFIXES = ('.txt', '.txt.gz')
DOCUMENTS = ('blank_line', 'file')


def make(split, path, documents='blank_line', heldout_every=100):
    """The documents of a split: dicts of text and title (the file's name).

    A document is what lies between blank lines, or a whole file (`documents='file'`).
    About one in `heldout_every` is held out, by its text (see data/reading.py). Files
    are read line by line. Raises FileNotFoundError for a missing path, ValueError for
    bytes that are not UTF-8.
    """
    reading.check_split(split, heldout_every)
    if documents not in DOCUMENTS:
        raise ValueError(
            f'text: documents={documents!r} is not one of {DOCUMENTS}: blank lines lie '
            'between documents, or every file is one.'
        )
    found = finding.find(path, SUFFIXES)
    read = _by_blank_line if documents == 'blank_line' else _by_file
    given = dict(read=read, split=split, heldout_every=heldout_every)
    return finding.Corpus(found, functools.partial(_documents, **given))


def _documents(files, read, split, heldout_every):
    for file in files:
        for text in read(file):
            if text and reading.in_split(text, split, heldout_every):
                yield {'text': text, 'title': file.name}


def _by_blank_line(file):
    block = []
    for _, line in reading.lines(file):
        if line.strip():
            block.append(line)
        else:
            yield '\n'.join(block)
            block = []
    yield '\n'.join(block)


def _by_file(file):
    yield '\n'.join(line for _, line in reading.lines(file)).strip()
