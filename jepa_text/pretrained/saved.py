"""Saves and reads fine-tuned models.

    task.json            kind and model as sections, how texts are read, training details
    model.safetensors    parameters by their paths, such as 'encoder/layers/ffn/up/kernel'
    tokenizer.json

`load.load(folder)` loads the model.
"""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
from flax import traverse_util
from safetensors.numpy import load_file, save

from jepa_text.data import tokenizers
from jepa_text.files import atomic, checksums
from jepa_text.models.network import Network
from jepa_text.pretrained import base, labels, spans, tags
from jepa_text.settings import resolve

FILE = 'task.json'
WEIGHTS = 'model.safetensors'
KINDS = {
    kind.name: kind
    for kind in (labels.Labels, labels.Scores, tags.Tags, spans.Spans, labels.Vectors)
}
# Fields of a load.Pretrained that are saved besides network, parameters and tokenizer.
READING = ('length', 'causal', 'begin', 'end', 'pool', 'normalize', 'shift')


def write(folder, model, kind, made=None):
    """Writes a load.Pretrained whose parameters have the head of the kind.

    `made` describes, as JSON values, how it was trained. Raises FileExistsError as
    check_free.
    """
    folder = check_free(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model.tokenizer.save(folder / 'tokenizer.json')
    params = {name: model.params[name] for name in ('encoder', base.HEAD)}
    leaves = traverse_util.flatten_dict(jax.device_get(params), sep='/')
    leaves = {path: np.asarray(leaf, np.float32) for path, leaf in leaves.items()}
    atomic.write(folder / WEIGHTS, save(leaves))
    description = {
        'kind': kind_section(kind),
        'model': section_of(model.network.encoder),
        'reading': {key: getattr(model, key) for key in READING},
        'sha256': checksums.sha256(folder / WEIGHTS),
        'made': made or {},
    }
    # Written last, so that the folder is complete if this file exists.
    atomic.write(folder / FILE, json.dumps(description, indent=1) + '\n')


def check_free(folder):
    """The folder as a path; raises FileExistsError if it has a fine-tuned model."""
    folder = Path(folder)
    if (folder / FILE).exists():
        raise FileExistsError(
            f'{folder} contains a fine-tuned model: give another --workdir, or delete it.'
        )
    return folder


def read(folder):
    """(kind, network, params, tokenizer, {key of READING: value}) of a folder.

    Raises ValueError for damaged weights.
    """
    folder = Path(folder)
    kind, network, tokenizer, reading, description = outline(folder)
    if checksums.sha256(folder / WEIGHTS) != description['sha256']:
        raise ValueError(
            f'{folder / WEIGHTS} is damaged or was edited: restore it from a backup, or '
            'fine-tune again.'
        )
    leaves = jax.tree.map(jax.numpy.asarray, load_file(folder / WEIGHTS))
    params = traverse_util.unflatten_dict(leaves, sep='/')
    return kind, network, params, tokenizer, reading


def outline(folder):
    """(kind, network, tokenizer, {key of READING: value}, content of task.json).

    Does not read the weights of the folder.
    """
    description = checksums.read_json(Path(folder) / FILE)
    tokenizer = tokenizers.load(Path(folder) / 'tokenizer.json', optional=('mask',))
    kind = kind_of(description['kind'])
    sizes = dict(description['model'])
    encoder = resolve.build('models', sizes, vocab_size=sizes.pop('vocab_size'))
    reading = _with_tuples(description['reading'])
    return kind, Network(encoder, kind), tokenizer, reading, description


def kind_section(kind):
    """The section of a kind, as JSON values; the inverse of kind_of."""
    return {'name': kind.name, **dataclasses.asdict(kind)}


def kind_of(section):
    """The kind of a section. Raises ValueError for an unknown name or field."""
    given = _with_tuples(section)
    name = given.pop('name', None)
    if name not in KINDS:
        raise ValueError(f'kind {name!r} does not exist; there are: {", ".join(KINDS)}.')
    return resolve.call(f'kind {name!r}', KINDS[name], given)


def section_of(encoder):
    """The config section from which an encoder can be built."""
    module = type(encoder).__module__
    name = module.removeprefix('jepa_text.models.')
    fields = {
        field.name: getattr(encoder, field.name)
        for field in dataclasses.fields(encoder)
        if field.name not in ('name', 'parent')
    }
    # The kernel is chosen again: the model may be used on another machine.
    return {'name': name, **fields, 'attention': 'auto'}


def _with_tuples(section):
    """The section with lists converted to tuples, as dataclass fields need them."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in section.items()}
