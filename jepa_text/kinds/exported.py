"""Conversion between task kinds and heads of transformers classes (hf/task_head.py)."""

import dataclasses

from jepa_text.hf import task_head
from jepa_text.kinds import base, labels, saved, spans, tags

# The labels of spans that are learned per token: whether it belongs to the answer.
MARKS = ('outside', 'answer')


def head_of(kind, params):
    """The TaskHead of a kind; `params` are those of its head."""
    described = saved.kind_section(kind)
    if kind.name in ('labels', 'scores'):
        names = tuple(map(str, kind.labels)) if kind.name == 'labels' else ('score',)
        is_score = kind.name == 'scores'
        head = task_head.TaskHead('sequence', params, names, kind.pool, kind.act)
        return dataclasses.replace(head, is_score=is_score, described=described)
    what, names = 'token', getattr(kind, 'labels', MARKS)
    if kind.name == 'spans' and kind.learn == 'ends':
        what, names = 'question', ('start', 'stop')
    return task_head.TaskHead(what, params, names, act=kind.act, described=described)


def kind_of(head, pair=None):
    """The kind of a TaskHead, or None if it lacks information.

    That is the format of question and context in a row, or the positions that it pools.
    `pair` is (ids between two texts, type of the second's tokens or None), None if
    unknown. Imported heads without a described kind read single texts, except for
    question answering; for other pairs the kind needs their template.
    """
    if head.described is not None:
        return saved.kind_of(head.described)
    act = head.act if 'dense' in head.params else ''
    if head.kind == 'token':
        return tags.Tags(labels=head.labels, act=act)
    if head.kind == 'question' and pair is not None:
        between, second_type = pair
        return spans.Spans(act=act, between=between, second_type=second_type)
    if head.kind == 'question' or head.pool == 'late':
        return None
    given = dict(template='{first}', pool=head.pool, act=act)
    if head.is_score:
        return labels.Scores(**given)
    return labels.Labels(labels=head.labels, **given)


def params_of(head):
    """The entry of the head in a model's parameters."""
    return {base.HEAD: head.params}
