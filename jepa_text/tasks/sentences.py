"""Sentences made from any text, to see what vectors keep of words and of their order."""

import numpy as np

from jepa_text import resolve, tables
from jepa_text import task as tasks
from jepa_text.data import finding, reading
from jepa_text.data.sources import bundled
from jepa_text.measures import probes, sentence_sets

SETS = {
    'bigram_shift': sentence_sets.bigram_shift,
    'word_order': sentence_sets.word_order,
    'odd_word': sentence_sets.odd_word,
    'word_content': sentence_sets.word_content,
    'length_bins': sentence_sets.length_bins,
}


SEEDED = ('bigram_shift', 'word_order', 'odd_word')


def make(made, path='', text='text', most=6000, seed=0, title=''):
    """`made` is one of SETS (see sentence_sets.py), from the texts at `path`, dealt by
    `seed`; or from paragraphs of the bundled corpus: to learn from, of its training
    documents, to be scored on, of those held out. Of at most so many texts. `title`:
    `made`."""
    if made not in SETS:
        raise ValueError(f'sentences: made={made!r}.{resolve.nearest(made, SETS)}')
    texts, first = _texts(path, text)
    stride = max(1, -(-len(texts) // most))
    found = SETS[made](texts[::stride], **seeded(made, seed))
    labels = [str(label) for label in found.labels_N]
    where = f'{made} of {path or "the bundled corpus"}'
    whole = tasks.examples(found.texts, None, labels, where)
    if path:
        sides = tasks.halves(whole, seed)
    else:
        is_test_N = found.sources_N * stride >= first
        sides = (whole.take(np.flatnonzero(side_N)) for side_N in (~is_test_N, is_test_N))
    return tasks.Task(title or made, 'labels', 'accuracy', *sides)


def seeded(made, seed):
    """{'seed': seed} for the sets that chance has a part in, else nothing."""
    return {'seed': seed} if made in SEEDED else {}


def _texts(path, field):
    """(texts, the index of the first that is held out, or None where none is)."""
    if not path:
        sides = [
            [text for text, _ in probes.paragraphs(bundled.make(split), 12, 24)]
            for split in bundled.SPLITS
        ]
        return [*sides[0], *sides[1]], len(sides[0])
    if path.endswith(('.txt', '.txt.gz')):
        found = [
            line
            for file in finding.find(path, ('.txt', '.txt.gz')).files
            for _, line in reading.lines(file)
        ]
    else:
        found = tables.column(tables.splits(path)[0], field, path)
    return list(dict.fromkeys(text for text in found if text.strip())), None
