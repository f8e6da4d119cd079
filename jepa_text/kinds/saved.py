"""A fine-tuned model on disk: what it was made of, and how it answers.

    task.json            kind and model as sections, how texts are read, what it is of
    model.safetensors    parameters by their paths, as 'encoder/layers/ffn/up/kernel'
    tokenizer.json

`load.load(folder)` gives it back.
"""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
from safetensors.numpy import load_file, save

from jepa_text.config import resolve
from jepa_text.data import tokenizers
from jepa_text.files import atomic, checksums
from jepa_text.kinds import base, labels, spans, tags, vectors
from jepa_text.models.network import Network
from jepa_text.optim import optimizers

FILE = 'task.json'
WEIGHTS = 'model.safetensors'
KINDS = {
    kind.name: kind
    for kind in (labels.Labels, labels.Scores, tags.Tags, spans.Spans, vectors.Vectors)
}
# What of a load.Pretrained is kept beside network, parameters and tokenizer.
READING = ('length', 'causal', 'begin', 'end', 'pool', 'normalize', 'shift')


def write(folder, model, kind, made=None):
    """Writes a load.Pretrained whose parameters have the head of the kind; `made` is JSON
    that says by what it was made. Raises FileExistsError as check_free."""
    folder = check_free(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model.tokenizer.save(folder / 'tokenizer.json')
    leaves = {
        optimizers.path_name(path): np.asarray(jax.device_get(leaf), np.float32)
        for path, leaf in jax.tree_util.tree_leaves_with_path(
            {name: model.params[name] for name in ('encoder', base.HEAD)}
        )
    }
    atomic.write(folder / WEIGHTS, save(leaves))
    said = {
        'kind': described(kind),
        'model': section_of(model.network.encoder),
        'reading': {key: getattr(model, key) for key in READING},
        'sha256': checksums.sha256(folder / WEIGHTS),
        'made': made or {},
    }
    # Last: where it is, all is there.
    atomic.write(folder / FILE, json.dumps(said, indent=1) + '\n')


def check_free(folder):
    """The folder as a path; FileExistsError where a model is already."""
    folder = Path(folder)
    if (folder / FILE).exists():
        raise FileExistsError(
            f'{folder} holds a fine-tuned model: give another --workdir, or delete it.'
        )
    return folder


def read(folder):
    """(kind, network, params, tokenizer, {key of READING: value}, made) of a folder.

    Raises ValueError for files that are not as they were written.
    """
    folder = Path(folder)
    kind, network, tokenizer, reading, said = outline(folder)
    if checksums.sha256(folder / WEIGHTS) != said['sha256']:
        raise ValueError(
            f'{folder / WEIGHTS} is not as it was written: bring it back from a copy, or '
            'fine-tune again.'
        )
    params = {}
    for path, leaf in load_file(folder / WEIGHTS).items():
        *above, name = path.split('/')
        place = params
        for part in above:
            place = place.setdefault(part, {})
        place[name] = jax.numpy.asarray(leaf)
    return kind, network, params, tokenizer, reading, said['made']


def outline(folder):
    """(kind, network, tokenizer, {key of READING: value}, all that task.json says) of a
    folder, whose weights are not read."""
    said = checksums.read_json(Path(folder) / FILE)
    tokenizer = tokenizers.load(Path(folder) / 'tokenizer.json', optional=('mask',))
    kind = kind_of(said['kind'])
    sizes = dict(said['model'])
    encoder = resolve.build('models', sizes, vocab_size=sizes.pop('vocab_size'))
    reading = {
        k: tuple(v) if isinstance(v, list) else v for k, v in said['reading'].items()
    }
    return kind, Network(encoder, kind), tokenizer, reading, said


def described(kind):
    """The section, for JSON, of which kind_of makes the kind again."""
    return {'name': kind.name, **dataclasses.asdict(kind)}


def kind_of(section):
    """The kind of a section. Raises ValueError for a name or a field that none has."""
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in section.items()}
    name = given.pop('name', None)
    if name not in KINDS:
        raise ValueError(f'kind {name!r} does not exist; there are: {", ".join(KINDS)}.')
    return resolve.call(f'kind {name!r}', KINDS[name], given)


def section_of(encoder):
    """The section of a config that builds an encoder as it is."""
    module = type(encoder).__module__
    name = module.removeprefix('jepa_text.models.')
    fields = {
        field.name: getattr(encoder, field.name)
        for field in dataclasses.fields(encoder)
        if field.name not in ('name', 'parent')
    }
    # Not the kernel of where it was trained: it may be read on another machine.
    return {'name': name, **fields, 'attention': 'auto'}
