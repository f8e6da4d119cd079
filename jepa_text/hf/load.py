"""Imports a Hugging Face folder or hub model: model, parameters and tokenizer."""

import dataclasses
import functools

import jax
import numpy as np
from flax import traverse_util

from jepa_text.data import tokenizers
from jepa_text.hf import adapt as adapting
from jepa_text.hf import card, files, sentence, task_head, weights
from jepa_text.hf.configs import encoder_of
from jepa_text.hf.source import Source, shapes_of
from jepa_text.models import heads
from jepa_text.models.network import init_module
from jepa_text.parallel import sharding
from jepa_text.settings import schema


@dataclasses.dataclass(frozen=True, eq=False)
class Imported:
    """An imported model.

    section     the model section of a config
    params      {'encoder': ..., 'lm_head': ...}; without lm_head if the file has none
    causal      tokens attend only to those before them
    begin, end  ids before and after a text
    shift       the LM head predicts a token at the position this far before it
    pooling     hf/sentence.Pooling, or None
    task        hf/task_head.TaskHead, or None; dropped when a model is adapted or causal,
                as kinds of tasks read in both directions
    record      findings and decisions, as JSON values; adapt.lines formats it
    """

    section: dict
    params: dict
    tied: bool
    tokenizer: tokenizers.Tokenizer
    length: int
    causal: bool
    begin: tuple
    end: tuple
    shift: int
    pooling: sentence.Pooling | None
    record: dict
    task: task_head.TaskHead | None = None

    @property
    def encoder(self):
        return encoder_of(self.section)


def load(name, revision=None, *, family=None, mesh=None, adapt=None):
    """Imports the model of a folder or hub name.

    Without `adapt`, a decoder stays causal; with `adapt`, a (possibly empty) dict of
    hf/adapt.Choices, it becomes an encoder. `family` overrides the config's model_type.
    Parameters are float32, sharded over the mesh if given.
    Raises ValueError, listing all tensors that do not match the config;
    FileNotFoundError for a folder without safetensors.
    """
    source, section, tokenizer, mask, head = _choose(name, revision, family, adapt)
    replaced = (tokenizer.mask_id,) if mask and mask[1] == 'new' else ()
    params, tied, used = _params(source, section, head, replaced, mesh)
    changed = {}
    if adapt is not None:
        ids = {'begin': (tokenizer.bos_id,), 'end': (tokenizer.eos_id,)}
        changed = {'causal': False, 'section': section, 'tokenizer': tokenizer, **ids}
    imported = _imported(
        source,
        params=params,
        tied=tied,
        # A decoder's head was trained to predict the next token.
        shift=source.shift if 'lm_head' in params and head != 'new' else 0,
        record={'source': str(name), 'revision': revision},
        task=source.task() if adapt is None and not source.causal else None,
        **changed,
    )
    imported.record.update(_decided(imported, source, mask, head, used))
    return imported


def sketch(name, revision=None, *, family=None, adapt=None):
    """What `load` would return, without parameters: {'model': the section of a config,
    'tied', 'family', 'has_head': whether there is an LM head}."""
    source, section, _, _, head = _choose(name, revision, family, adapt)
    return {
        'model': section,
        'tied': source.tied and head == 'keep',
        'family': source.family,
        'has_head': source.has_head or head == 'new',
    }


def outline(name, has_weights=False):
    """The Imported that `load` would return, without parameters, task and record.

    Reads only JSON files, so nothing else is downloaded from the hub, and it has no
    'lm_head'; with `has_weights`, all is downloaded, and the tensors are checked.
    """
    wanted = files.LOADED if has_weights else files.JSON
    source = Source(files.folder_of(name, wanted=wanted), has_weights=has_weights)
    has_head = has_weights and source.has_head
    return _imported(
        source,
        params={'lm_head': {}} if has_head else {},
        tied=has_weights and source.tied,
        shift=source.shift if has_head else 0,
    )


def _imported(source, **found):
    """The Imported of a source, with these fields; the others are those of the source."""
    pooling = sentence.read(source.folder)
    length = source.config['max_position_embeddings']
    length -= source.section.get('position_offset', 0)
    if 'begin' not in found:
        found['begin'], found['end'] = ends(source.tokenizer)
    usual = dict(
        section=source.section,
        tokenizer=source.tokenizer,
        length=min(length, (pooling and pooling.length) or length),
        causal=source.causal,
        pooling=pooling,
        record={},
    )
    return Imported(**usual | found)


def _choose(name, revision, family, adapt):
    """(source, section, tokenizer, mask and its origin, head) for the user's choices."""
    source = Source(files.folder_of(name, revision), family)
    choices = None if adapt is None else schema.read(adapting.Choices, adapt, 'adapt')
    section, tokenizer, mask = source.section, source.tokenizer, None
    if choices is not None:
        section = adapting.section_of(section, choices.window)
        tokenizer, *mask = adapting.with_mask(tokenizer, name)
    rows = max(section['vocab_rows'], tokenizer.vocab_size)
    section = {**section, 'vocab_rows': rows}
    return source, section, tokenizer, mask, choices.head if choices else 'keep'


def _decided(imported, source, mask, head, used):
    """The rest of the record: the origin, findings and decisions."""
    tokenizer, has_head = imported.tokenizer, 'lm_head' in imported.params
    if mask is None and tokenizer.mask_id is not None:
        mask = (tokenizer.backend.id_to_token(tokenizer.mask_id), 'found')
    return {
        'commit': files.commit_of(source.folder),
        'license': card.license_of(source.folder),
        'family': source.family,
        'attends': 'causal' if imported.causal else 'bidirectional',
        'window': imported.section.get('window'),
        'mask': mask and {'token': mask[0], 'how': mask[1], 'id': tokenizer.mask_id},
        'rows': {
            'file': source.section['vocab_rows'],
            'now': imported.section['vocab_rows'],
            'tokens': tokenizer.vocab_size,
        },
        'head': f'{head}, {"tied" if imported.tied else "its own"}'
        if has_head
        else 'none',
        'advice': 'mntp' if imported.shift else 'mlm',
        'begin': list(imported.begin),
        'end': list(imported.end),
        'pad': tokenizer.pad_id,
        'left_out': source.left_out(used),
    }


def _params(source, section, head, replaced, mesh):
    """({'encoder': ..., 'lm_head': ...}, tied, names of the tensors that were read)."""
    has_head = source.has_head or head == 'new'
    tied = source.tied and head == 'keep'
    shapes = shapes_of(source.section, tied, has_head)
    bound = weights.bindings(source.kind, shapes)
    if head == 'new':
        bound = {n: p for n, p in bound.items() if not p[0].path.startswith('lm_head/')}
    flat = weights.place(shapes, bound, source.read, mesh)
    if replaced or section['vocab_rows'] != source.section['vocab_rows']:
        flat = _with_rows(source, flat, section['vocab_rows'], replaced, mesh)
    params = {'encoder': {}} | ({'lm_head': {}} if has_head else {})
    params |= traverse_util.unflatten_dict(flat, sep='/')
    if head == 'new':
        params['lm_head'] = _new_head(section, mesh)
    return params, tied, set(bound)


def _with_rows(source, leaves, rows, replaced, mesh):
    """Parameters of `rows` tokens; new rows, and those `replaced`, are the mean."""
    have = source.section['vocab_rows']
    rows_V = np.where(np.arange(rows) < have, np.arange(rows), -1)
    rows_V[list(replaced)] = -1
    known = min(source.tokenizer.vocab_size, have)
    make = functools.partial(adapting.with_token_rows, rows_V=rows_V, known=known)
    own = {path: leaves[path] for path in leaves if path in adapting.BY_TOKEN}
    placed = {
        path: weights.sharding_of(path, leaf.shape, mesh)
        for path, leaf in jax.eval_shape(make, own).items()
    }
    return leaves | jax.jit(make, out_shardings=placed)(own)


def _new_head(section, mesh):
    head = heads.lm_head(encoder_of(section))
    make = functools.partial(init_module, 'lm_head', head, 0)
    shapes = {'lm_head': jax.eval_shape(make)}
    placed = None if mesh is None else sharding.shardings(shapes, mesh)['lm_head']
    return jax.jit(make, out_shardings=placed)()


def ends(tokenizer):
    """The ids that the tokenizer's own template adds before and after a text."""
    # A probe that every tokenizer can encode: 'a' may be unknown to a Russian one.
    plain = tokenizer.backend.encode(tokenizers.PROBE, add_special_tokens=False).ids
    whole = tokenizer.backend.encode(tokenizers.PROBE, add_special_tokens=True).ids
    start = next(i for i in range(len(whole)) if whole[i : i + len(plain)] == plain)
    return tuple(whole[:start]), tuple(whole[start + len(plain) :])
