"""Truncation of texts that are longer than a model's rows, with warnings and counts.

    stop(tokenizer, text, maximum)  -> where a text is cut
    warn(model, tokens_N)           -> one warning for all texts of a call
    message(...)                    -> the warning for a fine-tuning task
    truncate(model, task)           -> the task with truncated texts, and a Cut
    sentences(cuts)                 -> a report of several Cuts

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


def stop(tokenizer, text, maximum):
    """Returns the number of characters of the first `maximum` tokens of a text; None if
    it has no more tokens."""
    encoding = tokenizer.backend.encode(text, add_special_tokens=False)
    return encoding.offsets[maximum - 1][1] if len(encoding.ids) > maximum else None


def warn(model, tokens_N):
    """Warns the caller of a method of a load.Pretrained if it truncates texts; tokens_N
    are their numbers of tokens without specials."""
    maximum = model.length - sum(map(len, model.ends()))
    if cut := sum(tokens > maximum for tokens in tokens_N):
        texts = len(tokens_N)
        warnings.warn(
            f'{cut:,} of {texts:,} texts ({cut / texts:.0%}) are longer than the '
            f'{model.length:,} tokens that {model.name or "the model"} reads; the rest '
            'does not affect their vectors. Split such texts, or use a model with longer '
            'rows (data.row_length).',
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
        share = f'{percent(cut)} of {cut.texts:,} texts cut at {cut.length:,} tokens'
        rest = f'; {cut.read:.0%} of their characters are read' if cut.cut else ''
        sentences.append(f'{cut.task}, {cut.model}: {share}{rest.replace("%", " %")}.')
    return list(dict.fromkeys(sentences))


def percent(cut):
    """Returns the percentage of cut texts of a Cut; '<1 %' means more than none."""
    share = cut.cut / cut.texts
    return '<1 %' if 0 < share < 0.01 else f'{100 * share:.0f} %'
