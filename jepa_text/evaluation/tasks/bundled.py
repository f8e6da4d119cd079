"""Authorship of paragraphs of the bundled corpus, a task that needs no files."""

from jepa_text.data.sources import bundled
from jepa_text.evaluation.sets import task as tasks
from jepa_text.evaluation.sets.paragraphs import paragraphs


def make():
    """Makes the task of classifying paragraphs of 40 to 80 words by their author.

    All presidents count as one author, as the last ones are held out. Whole documents are
    held out, so no neighboring paragraph is in the training set.
    """
    sides = []
    for split in ('train', 'heldout'):
        pieces = paragraphs(bundled.make(split))
        labels = [_author(document) for _, document in pieces]
        sides.append(tasks.examples([text for text, _ in pieces], None, labels))
    return tasks.Task('bundled', 'labels', 'accuracy', *sides)


def _author(document):
    is_address = document['title'].startswith('State of the Union')
    return 'a president' if is_address else document['author']
