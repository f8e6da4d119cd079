"""What a model reads of texts that are longer than its rows, and how many are.

    stop(tokenizer, text, maximum)  -> where a text is cut
    warn(model, tokens_N)           -> one warning for all texts of a call
    told(...)                    -> the same of a task that is fine-tuned on
    task(model, task)            -> the task with its texts cut so, and a Cut
    sentences(cuts)              -> the same in words

Whatever else looks at these texts for the model, to count their words or to be a control,
gets the same part of them.
"""

import dataclasses
import warnings
from typing import NamedTuple


class Longer(UserWarning):
    """That texts are longer than rows."""


class Cut(NamedTuple):
    """`cut` of `texts` are longer than `length` tokens; `read` is the share of all
    characters that is not cut off."""

    task: str
    model: str
    seed: int
    length: int
    texts: int
    cut: int
    read: float


def stop(tokenizer, text, maximum):
    """Characters of the first `maximum` tokens of a text; None if there are no more."""
    encoding = tokenizer.backend.encode(text, add_special_tokens=False)
    return encoding.offsets[maximum - 1][1] if len(encoding.ids) > maximum else None


def warn(model, tokens_N):
    """Warns whoever called a method of a load.Pretrained of texts that it cuts, as they
    have so many tokens, without specials."""
    maximum = model.length - sum(map(len, model.ends()))
    if cut := sum(tokens > maximum for tokens in tokens_N):
        texts = len(tokens_N)
        warnings.warn(
            f'{cut:,} of {texts:,} texts ({cut / texts:.0%}) are longer than the '
            f'{model.length:,} tokens that {model.name or "the model"} reads: what comes '
            'after these is not in their vectors. Split such texts, or take a model of '
            'longer rows (data.row_length).',
            Longer,
            stacklevel=4,
        )


def told(task, length, cut, texts):
    """A sentence on the texts of a task that rows cut."""
    return (
        f'{task}: {cut:,} of {texts:,} texts are longer than the {length:,} tokens of a '
        'row: what comes after these is not read, but by controls of words.'
    )


def task(model, whole, name='', seed=0):
    """(task, Cut) of a load.Pretrained: the same object where nothing is cut."""
    texts = [*whole.train.texts(), *whole.test.texts()]
    stop = {text: model.cut_at(text) for text in dict.fromkeys(texts)}
    kept = [text[: stop[text]] for text in texts]
    cut = Cut(
        whole.name,
        name,
        seed,
        model.length,
        len(texts),
        sum(stop[text] is not None for text in texts),
        sum(map(len, kept)) / sum(map(len, texts)),
    )
    if not cut.cut:
        return whole, cut

    def part(examples):
        first, second = (
            texts and [text[: stop[text]] for text in texts]
            for texts in (examples.first, examples.second)
        )
        return dataclasses.replace(examples, first=first, second=second)

    read = dataclasses.replace(whole, train=part(whole.train), test=part(whole.test))
    return read, cut


def sentences(cuts):
    """One sentence for each task and model of which texts were cut, and one for the rest.

    >>> one = Cut('sst2', 'a', 0, 64, 300, 111, 0.815)
    >>> sentences([one, one._replace(seed=1), one._replace(task='cola', cut=0)])
    ['sst2, a: 37 % of 300 texts cut at 64 tokens; 82 % of their characters are read.', \
'cola, a: 0 % of 300 texts cut at 64 tokens.']
    """
    said = []
    for one in cuts:
        share = f'{percent(one)} of {one.texts:,} texts cut at {one.length:,} tokens'
        rest = f'; {one.read:.0%} of their characters are read' if one.cut else ''
        said.append(f'{one.task}, {one.model}: {share}{rest.replace("%", " %")}.')
    return list(dict.fromkeys(said))


def percent(cut):
    """'37 %' of a Cut; '<1 %' is more than none.

    >>> [percent(Cut('t', 'm', 0, 64, 300, n, 1.0)) for n in (0, 1, 111, 299, 300)]
    ['0 %', '<1 %', '37 %', '>99 %', '100 %']
    """
    share = cut.cut / cut.texts
    if 0 < share < 0.01:
        return '<1 %'
    return '>99 %' if 0.99 < share < 1 else f'{100 * share:.0f} %'
