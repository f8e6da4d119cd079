"""Models as folders: those of `model.save`, and fine-tuned ones.

    model.json           encoder and kind as sections, how texts are read, its making
    model.safetensors    parameters by their paths, such as 'encoder/layers/ffn/up/kernel'
    tokenizer.json

`load.load(folder)` loads the model. Unlike an export, which only holds what a family of
transformers can express, in float32, the folder gives back every model to the bit.
"""

import dataclasses
import functools
import json
from pathlib import Path

import jax
import numpy as np
from flax import traverse_util
from safetensors.numpy import load_file, save

from jepa_text.data import tokenizers
from jepa_text.files import atomic, checksums, paths
from jepa_text.hf import card
from jepa_text.models import heads
from jepa_text.models.network import Network
from jepa_text.pretrained import labels, spans, tags
from jepa_text.settings import resolve

FILE, WEIGHTS, TOKENIZER = 'model.json', 'model.safetensors', 'tokenizer.json'
OLD_FILE = 'task.json'
KINDS = {
    kind.name: kind
    for kind in (labels.Labels, labels.Scores, tags.Tags, spans.Spans, labels.Vectors)
}
# Fields of a load.Pretrained that are saved besides network, parameters and tokenizer.
READING = ('length', 'causal', 'begin', 'end', 'pool', 'normalize', 'shift')


def replace(folder, model):
    """Writes the folder of a load.Pretrained, atomically.

    Raises FileExistsError for a folder with anything but such a model, which is replaced.
    """
    folder = Path(paths.local('The folder to write', folder))
    paths.check_folder('The folder to write', str(folder))
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if there - {FILE, WEIGHTS, TOKENIZER}:
        raise FileExistsError(
            f'{folder} has other files than those of a saved model, and is not '
            'overwritten: give another folder, or delete it first.'
        )
    with atomic.folder(folder, replaces=True) as partial:
        write(partial, model)


def write(folder, model, made=None):
    """Writes a load.Pretrained to a folder, which may have other files.

    `made` is the result of its fine-tuning, as JSON values; None for what the model's
    `facts` are. Raises ValueError for an LM head that is not the encoder's.
    """
    folder = Path(folder)
    section = section_of(model.network.encoder)
    folder.mkdir(parents=True, exist_ok=True)
    model.tokenizer.save(folder / TOKENIZER)
    leaves = traverse_util.flatten_dict(jax.device_get(model.params), sep='/')
    # safetensors writes the buffer as it is, so it must be contiguous in C order.
    leaves = {path: np.asarray(leaf, order='C') for path, leaf in leaves.items()}
    atomic.write(folder / WEIGHTS, save(leaves))
    facts = card.Facts(tuned=made) if made else model.facts and model.facts()
    description = {
        'kind': model.kind and kind_section(model.kind),
        'objective': None if model.kind else _objective_section(model),
        'model': section,
        'modules': [*model.params],
        'reading': {key: getattr(model, key) for key in READING},
        'record': model.record,
        'sha256': checksums.sha256(folder / WEIGHTS),
        'facts': facts and dataclasses.asdict(facts),
    }
    # Written last, so that the folder is complete if this file exists.
    atomic.write(folder / FILE, json.dumps(description, indent=1) + '\n')


def _objective_section(model):
    """The section of an objective with this LM head, which fills masks or does not."""
    network = model.network
    token = getattr(network.objective, 'token_objective', None)
    head = network.modules.get('lm_head')
    tied = getattr(head, 'tied', False)
    if head not in (None, heads.lm_head(network.encoder, tied)):
        raise ValueError(
            f'{model.name or "The model"} has an LM head of its own, which the folder '
            'could not give back: save its parameters with Orbax.'
        )
    fills = token is not None and token.fills
    return {'name': 'mlm' if fills else 'clm', 'tied': tied}


def check_free(folder):
    """Raises FileExistsError if a folder has a saved model, and PermissionError if none
    can be written there."""
    if is_saved(folder):
        raise FileExistsError(
            f'{folder} contains a fine-tuned model: give another --workdir, or delete it.'
        )
    atomic.check_writable(folder)


def is_saved(folder):
    """Whether a folder has a saved model; ValueError for one of version 0.1."""
    if (folder / OLD_FILE).is_file() and not (folder / FILE).is_file():
        raise ValueError(f'{folder}/{OLD_FILE} has another name now: call it {FILE}.')
    return (folder / FILE).is_file()


def read(folder):
    """{field of load.Pretrained: value} of a folder. ValueError for damaged weights."""
    fields, description = outline(folder)
    if checksums.sha256(folder / WEIGHTS) != description['sha256']:
        raise ValueError(
            f'{folder / WEIGHTS} is damaged or was edited: restore it from a backup, or '
            'make the model again.'
        )
    leaves = jax.tree.map(jax.numpy.asarray, load_file(folder / WEIGHTS))
    params = fields['params'] | traverse_util.unflatten_dict(leaves, sep='/')
    return fields | {'params': params}


def outline(folder):
    """({field of load.Pretrained: value}, content of model.json).

    Does not read the weights of the folder: modules are there, without parameters.
    """
    description = checksums.read_json(folder / FILE)
    tokenizer = tokenizers.load(folder / TOKENIZER, optional=('mask',))
    sizes = dict(description['model'])
    encoder = resolve.build('models', sizes, vocab_size=sizes.pop('vocab_size'))
    fields = _with_tuples(description['reading'])
    fields |= {'tokenizer': tokenizer, 'record': description.get('record')}
    # A tied LM head never has parameters.
    fields['params'] = dict.fromkeys(description.get('modules', ()), {})
    if description['kind']:
        objective = fields['kind'] = kind_of(description['kind'])
    else:
        given = dict(tokenizer=tokenizer, length=fields['length'], steps=1)
        objective = resolve.build('objectives', description['objective'], **given)
    # That of a fine-tuned model of version 0.1 is under another key.
    facts = description.get('facts', {'tuned': description.get('made')})
    fields['facts'] = facts and functools.partial(card.Facts, **facts)
    return fields | {'network': Network(encoder, objective)}, description


def kind_section(kind):
    """The section of a kind, as JSON values; the inverse of kind_of."""
    return {'name': kind.name, **dataclasses.asdict(kind)}


def kind_of(section):
    """The kind of a section. Raises ValueError for an unknown name or field."""
    given = _with_tuples(section)
    for old in ('between', 'second_type'):  # of earlier versions, which stored None
        if given.get(old) is None:
            given.pop(old, None)
    name = given.pop('name', None)
    resolve.check_choice('kind', name, KINDS)
    return resolve.call(f'kind {name!r}', KINDS[name], given)


def section_of(encoder):
    """The config section from which an encoder can be built.

    Raises UserCodeError for one of a user's class whose module does not build it.
    """
    module = type(encoder).__module__
    name = module.removeprefix('jepa_text.models.')
    fields = {
        field.name: getattr(encoder, field.name)
        for field in dataclasses.fields(encoder)
        if field.name not in ('name', 'parent')
    }
    # The kernel is chosen again: the model may be used on another machine.
    section = {'name': name, **fields, 'attention': 'auto'}
    if '.' in name:
        own = {key: x for key, x in section.items() if key != 'vocab_size'}
        made = resolve.build('models', own, vocab_size=encoder.vocab_size)
        if made != encoder.clone(attention='auto'):
            resolve.reject_user_code(
                name,
                'make must return the encoder with all of its fields as they are given, '
                f'as a saved model has only these: {own} gave {made}.',
            )
    return section


def _with_tuples(section):
    return {k: tuple(v) if isinstance(v, list) else v for k, v in section.items()}
