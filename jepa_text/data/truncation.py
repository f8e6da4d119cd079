"""Truncation of texts that are longer than a model's rows, with warnings and counts.

Whatever else reads these texts, such as word counts and controls, gets the same part.
"""

import dataclasses
import warnings
from typing import NamedTuple


class TruncationWarning(UserWarning):
    """Some texts are longer than rows."""


class Cut(NamedTuple):
    """`cut` of `texts` texts are longer than `length` tokens; `read` is the share of all
    characters that remains."""

    task: str
    model: str
    seed: int
    length: int
    texts: int
    cut: int
    read: float


def warn(name, cut, texts, length):
    """Warns, if `cut` of a number of texts are, of texts longer than a model's rows.

    The warning is at the caller of the method of load.Pretrained that calls the caller.
    """
    if cut:
        warnings.warn(
            f'{cut:,} of {texts:,} texts ({cut / texts:.0%}) are longer than the '
            f'{length:,} tokens that {name or "the model"} reads; the rest has no '
            'effect. Split such texts, or use a model of longer rows (data.row_length).',
            TruncationWarning,
            stacklevel=4,
        )


def message(task, length, cut, texts):
    """Returns a sentence about the truncated texts of a task."""
    return (
        f'{task}: {cut:,} of {texts:,} texts are longer than the {length:,} tokens of a '
        'row; only the word controls read the rest.'
    )


def truncate(model, task, name='', seed=0):
    """Returns (truncated task, Cut) for a load.Pretrained; the same task if nothing is
    cut."""
    texts = [*task.train.texts(), *task.test.texts()]
    stops = {text: model.cut_at(text) for text in dict.fromkeys(texts)}
    cut = Cut(
        task.name,
        name,
        seed,
        model.length,
        len(texts),
        sum(stops[text] is not None for text in texts),
        sum(len(text[: stops[text]]) for text in texts) / sum(map(len, texts)),
    )
    if not cut.cut:
        return task, cut

    def part(examples):
        first, second = (
            texts and [text[: stops[text]] for text in texts]
            for texts in (examples.first, examples.second)
        )
        return dataclasses.replace(examples, first=first, second=second)

    train, test = part(task.train), part(task.test)
    return dataclasses.replace(task, train=train, test=test), cut


def sentences(cuts):
    """Returns a sentence for each task and model, without repeats."""
    sentences = []
    for cut in cuts:
        share = cut.cut / cut.texts
        share = '<1 %' if 0 < share < 0.01 else f'{100 * share:.0f} %'
        share += f' of {cut.texts:,} texts cut at {cut.length:,} tokens'
        rest = f'; {cut.read:.0%} of their characters are read' if cut.cut else ''
        sentences.append(f'{cut.task}, {cut.model}: {share}{rest.replace("%", " %")}.')
    return list(dict.fromkeys(sentences))
