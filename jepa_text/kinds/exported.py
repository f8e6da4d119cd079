"""A kind of ours <-> a head of theirs (hf/task_head.py)."""

import dataclasses

from jepa_text.hf import task_head
from jepa_text.kinds import base, labels, saved, spans, tags

# Of spans by their tokens: is a token of the answer?
MARKS = ('outside', 'answer')


def head_of(kind, params):
    """The TaskHead of a kind, `params` being those of its head."""
    described = saved.described(kind)
    if kind.name in ('labels', 'scores'):
        names = kind.labels if kind.name == 'labels' else ('score',)
        is_score = kind.name == 'scores'
        head = task_head.TaskHead('sequence', params, names, kind.pool, kind.act)
        return dataclasses.replace(head, is_score=is_score, described=described)
    what, names = 'token', getattr(kind, 'labels', MARKS)
    if kind.name == 'spans' and kind.learn == 'ends':
        what, names = 'question', ('start', 'stop')
    return task_head.TaskHead(what, params, names, act=kind.act, described=described)


def kind_of(head, pair=None):
    """The kind of a TaskHead; None where it does not say enough: how a model of others
    makes a row of a question and a context, or by what positions it pools.

    `pair` is (ids between two texts, type of the second's tokens or None), None where
    nobody says. A model of others reads single texts, but to answer questions; for other
    pairs the kind needs their template.
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
    """What of the parameters of a model is the head's."""
    return {base.HEAD: head.params}
