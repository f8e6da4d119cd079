"""Sentences made from any text, to see what vectors keep of words and of their order."""

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


def make(made, path='', text='text', most=6000, seed=0, title=''):
    """`made` is one of SETS (see sentence_sets.py), from the texts at `path`, or from
    paragraphs of the bundled corpus; of at most so many texts. `title`: `made`."""
    if made not in SETS:
        raise ValueError(f'sentences: made={made!r}.{resolve.nearest(made, SETS)}')
    texts = _texts(path, text)
    texts = texts[:: max(1, -(-len(texts) // most))]
    given = {} if made == 'length_bins' else {'seed': seed}
    if made == 'word_content':
        given = {}
    found = SETS[made](texts, **given)
    labels = [str(label) for label in found.labels_N]
    where = f'{made} of {path or "the bundled corpus"}'
    whole = tasks.examples(found.texts, None, labels, where)
    sides = tasks.halves(whole, seed)
    return tasks.Task(title or made, 'labels', 'accuracy', *sides)


def _texts(path, field):
    if not path:
        pieces = probes.paragraphs(bundled.make('train'), 12, 24)
        return [text for text, _ in pieces]
    if path.endswith(('.txt', '.txt.gz')):
        found = [
            line
            for file in finding.find(path, ('.txt', '.txt.gz')).files
            for _, line in reading.lines(file)
        ]
    else:
        found = tables.column(tables.splits(path)[0], field, path)
    return list(dict.fromkeys(text for text in found if text.strip()))
