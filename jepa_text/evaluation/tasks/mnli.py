"""MNLI (Williams et al. 2018), matched: entailment, neutral or contradiction?"""

from jepa_text.data import tables
from jepa_text.evaluation import task as tasks

# Hugging Face's numbers; GLUE's TSV has the words.
NAMES = {'0': 'entailment', '1': 'neutral', '2': 'contradiction'}
TEST = ('dev_matched', 'validation_matched', 'dev', 'validation')


def make(path, title=''):
    """From a folder with train and dev_matched (or validation_matched); `title` names the
    task."""
    sides = []
    for rows, side in zip(tables.splits(path, test=TEST), ('train', 'dev_matched')):
        where = f'mnli {side} in {path}'
        if not rows:
            raise ValueError(f'{where}: there are no such rows.')
        is_glue = 'gold_label' in rows[0]
        first_field, second_field, field = (
            ('sentence1', 'sentence2', 'gold_label')
            if is_glue
            else ('premise', 'hypothesis', 'label')
        )
        labels = [str(label) for label in tables.column(rows, field, where)]
        labels = [NAMES.get(label, label) for label in labels]
        first = tables.column(rows, first_field, where)
        second = tables.column(rows, second_field, where)
        # '-' and -1: the annotators did not agree.
        kept = [i for i, label in enumerate(labels) if label in NAMES.values()]
        first, second, labels = ([x[i] for i in kept] for x in (first, second, labels))
        sides.append(tasks.examples(first, second, labels, where))
    return tasks.Task(
        title or 'mnli', 'labels', 'accuracy', *sides, positive='entailment'
    )
