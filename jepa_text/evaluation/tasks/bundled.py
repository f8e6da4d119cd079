"""Authorship of paragraphs of the bundled corpus, a task that needs no files."""

from jepa_text.data.sources import bundled
from jepa_text.evaluation.sets import task as tasks
from jepa_text.evaluation.sets.paragraphs import paragraphs


def make():
    """Makes the task of classifying paragraphs of 40 to 80 words by their author.

    All presidents count as one author, as the last ones are held out. Whole documents are
    held out, so no neighboring paragraph is in the training set. A split has as many
    paragraphs of each author, evenly spaced: otherwise the author of most of the training
    and validation paragraphs would be that of fewest in the test set.
    """
    sides = []
    for split in ('train', 'heldout'):
        by_author = {}
        for text, document in paragraphs(bundled.make(split)):
            by_author.setdefault(_author(document), []).append(text)
        count = min(map(len, by_author.values()))
        pairs = [
            (texts[n * len(texts) // count], author)
            for author, texts in by_author.items()
            for n in range(count)
        ]
        texts, labels = map(list, zip(*pairs))
        sides.append(tasks.examples(texts, None, labels))
    return tasks.Task('bundled', 'labels', 'accuracy', *sides)


def _author(document):
    is_address = document['title'].startswith('State of the Union')
    return 'a president' if is_address else document['author']
