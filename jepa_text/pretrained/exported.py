"""Conversion between task kinds and heads of transformers classes (hf/task_head.py)."""

import dataclasses

from jepa_text.hf import task_head, to_family
from jepa_text.hf.families import FAMILIES
from jepa_text.models import pooling
from jepa_text.pretrained import labels, saved, tags

# The labels of spans that are learned per token: whether it belongs to the answer.
MARKS = ('outside', 'answer')


def form_of(kind):
    """The form of a kind's head, in task_head.WHAT; None if it has no head there."""
    if kind.name == 'spans':
        return 'question' if kind.learn == 'ends' else 'token'
    forms = {'labels': 'sequence', 'scores': 'sequence', 'tags': 'token'}
    return forms.get(kind.name)


def with_usual_head(kind, model):
    """The kind with the head of the class that the model's family has for it.

    Vectors get the pooling of the model. A kind is unchanged if no family has a class for
    it, or one that reads a first token that this tokenizer does not add.
    """
    if kind.name == labels.Vectors.name:
        return dataclasses.replace(kind, pool=pooling.base(model.pool))
    form = form_of(kind)
    family = to_family.tuned_family(model, form)
    if form is None or family is None:
        return kind
    theirs = FAMILIES[family].tasks[form]
    if not theirs.pools:
        return dataclasses.replace(kind, act=theirs.act)
    pools = [pool for pool in theirs.pools if pool != 'cls' or model.ends()[0]]
    return dataclasses.replace(kind, act=theirs.act, pool=pools[0]) if pools else kind


def obstacle(kind, model):
    """Why a model cannot be exported after fine-tuning for a kind; None if it can."""
    form = form_of(kind)
    family = to_family.tuned_family(model, form)
    is_vectors = kind.name == labels.Vectors.name
    if family is None or (form is None and not is_vectors):
        what = 'vectors' if is_vectors else task_head.WHAT.get(form, kind.name)
        return f'no class of transformers has its layers and a head for {what}'
    if is_vectors:
        return None
    try:
        task_head.fitting(family, form, getattr(kind, 'pool', ''), kind.act)
    except ValueError as error:
        return str(error)
    return None


def head_of(kind, params):
    """The TaskHead of a kind; `params` are those of its head.

    Raises ValueError for a kind whose head no class has.
    """
    form, is_score = form_of(kind), kind.name == 'scores'
    if form is None:
        raise ValueError(
            f'No class of transformers has a head for {kind.name}: use the model in '
            'jepa_text, whose method `save` writes it to a folder.'
        )
    names = ('start', 'stop') if form == 'question' else getattr(kind, 'labels', MARKS)
    names = ('score',) if is_score else tuple(map(str, names))
    how = getattr(kind, 'pool', 'mean'), kind.act, is_score, saved.kind_section(kind)
    return task_head.TaskHead(form, params, names, *how)


def kind_of(head):
    """The kind of a TaskHead; None if its texts were joined in an unknown way.

    Imported heads without a described kind read single texts; for pairs the kind needs
    their template. Question answering is read in exports of this package only, and by
    models that it fine-tuned.
    """
    # Earlier versions described question answering of others, too, by what joins a pair.
    if head.described is not None and head.described.get('between') is None:
        kind = saved.kind_of(head.described)
        ours = head_of(kind, head.params)
        # Unless it was trained on other labels since, elsewhere.
        if (ours.kind, ours.labels) == (head.kind, head.labels):
            return kind
    act = head.layers
    if head.kind == 'token':
        return tags.Tags(labels=head.labels, act=act)
    if head.kind == 'question':
        return None
    given = dict(template='{first}', pool=head.pool, act=act)
    if head.is_score:
        return labels.Scores(**given)
    return labels.Labels(labels=head.labels, **given)
