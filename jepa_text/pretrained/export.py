"""Exports a model to a folder for `transformers` and `sentence-transformers`.

    config.json                                                       to_family.py
    model.safetensors, or shards and their index                      weights.py
    tokenizer.json, tokenizer_config.json, special_tokens_map.json    vocabulary.py
    modules.json, 1_Pooling/, sentence_bert_config.json               sentence.py
    README.md                                                         card.py

The folder is created atomically, after it was read back and gave the model's scores.
`push` uploads it.
"""

import dataclasses
import tempfile
from pathlib import Path

import jax
import numpy as np

from jepa_text.files import addresses, atomic, extras, paths
from jepa_text.hf import card, files, load, sentence, to_family, vocabulary, weights
from jepa_text.hf.families import FAMILIES
from jepa_text.models import heads, pooling
from jepa_text.pretrained import base, exported
from jepa_text.settings import resolve

TOLERANCE = 1e-4


def write(
    model,
    folder,
    *,
    family=None,
    license=None,
    published=None,
    shard_bytes=weights.MAXIMUM,
    dtype='float32',
):
    """Writes the folder of a load.Pretrained, reads it back, and compares.

    `family` is one of families.WRITTEN, None for the default; `published` is its name
    on the hub, for the card. The head of the model's fine-tuning replaces the LM head.
    With `dtype` float16, parameters are rounded to it; config.json asks for float32, in
    which they are used. Returns {'family', 'architecture', 'parameters', 'difference'}.
    Raises RuntimeError if it reads back as another model; then nothing is left behind.
    """
    folder = check_free(folder)
    resolve.check_choice('dtype', dtype, ('float32', 'float16'))
    to_family.check(model)
    if model.params.get(base.HEAD):
        kind, params = model.kind.folded(model.params)
        model = dataclasses.replace(model, kind=kind, params=params)
    if dtype != 'float32':
        model = jax.tree.map(lambda x: x.astype(dtype).astype(x.dtype), model)
    facts = model.facts and model.facts()
    # Where it was imported from; neither of them if it was trained here.
    origin = (model.record or (facts and facts.init_from) or {}).get('family')
    pooling.check(model.pool, model.ends()[0], (), model.tokenizer.special_ids)
    if family is None and model.kind is not None:
        family = to_family.tuned_family(model, exported.form_of(model.kind))
    if family is None:
        family = to_family.usual_family(model.network.encoder, model.causal, origin)
    task = None
    if model.params.get(base.HEAD):
        task = exported.head_of(model.kind, model.params[base.HEAD])
        # Checked first: whether the family has its layers.
        task.fitting(family)
        model = dataclasses.replace(model, params={'encoder': model.params['encoder']})
    config, leaves = to_family.converted(model, family, origin)
    config |= task.config(family) if task else {}
    own = task.tensors(family) if task else {}
    info = {
        'family': family,
        'architecture': config['architectures'][0],
        'parameters': sum(x.size for x in (*leaves.values(), *own.values())),
    }
    with atomic.folder(folder) as partial:
        files.write_json(partial / 'config.json', config)
        prefix = task.fitting(family).prefix if task else None
        weights.write(leaves, own, FAMILIES[family], partial, shard_bytes, prefix, dtype)
        vocabulary.write(partial, model, family)
        pooling_of = sentence.Pooling(model.pool, model.normalize, model.length)
        sentence.write(partial, pooling_of, model.network.encoder.width)
        about = info['architecture'], info['parameters'], facts, license, published
        (partial / 'README.md').write_text(card.text(model, *about), encoding='utf-8')
        info['difference'] = compared(model, partial, task, own)
        check_free(folder)
    return info


def push(model, name, private, **options):
    """Uploads the folder of `write`, with its `options`, to the hub; returns the URL.

    Raises as `write` does, ModuleNotFoundError without huggingface_hub, OSError without
    a token that may write there, and ValueError, before anything is uploaded, with
    `private` for a repository that is public.
    """
    hub = extras.package('huggingface_hub', 'hf', 'push_to_hub')
    from huggingface_hub.errors import HfHubHTTPError

    try:
        # Without a valid token, an error that says how to get one.
        user = hub.whoami()['name']
        name = name if '/' in name else f'{user}/{name}'
        with tempfile.TemporaryDirectory() as temporary:
            write(model, f'{temporary}/model', published=name, **options)
            url = hub.create_repo(name, private=private, exist_ok=True)
            # Of one that exists, the hub ignores `private`.
            if private and not hub.repo_info(name).private:
                raise ValueError(
                    f'private={private}, but {name} is public on the hub, so nothing was '
                    'uploaded: make it private in its settings there, or give a new name.'
                )
            # Of weights in one file and in shards, the file would be read.
            old = ['*.safetensors', files.INDEX]
            hub.upload_folder(
                repo_id=name, folder_path=f'{temporary}/model', delete_patterns=old
            )
    except HfHubHTTPError as error:
        raise addresses.final_error(f'hf:{name}', error) or error from error
    return str(url)


def compared(model, folder, task=None, own=None):
    """The largest difference of logits (or hidden states) between a folder and the model.

    `own` are tensors that it must contain unchanged, those of a TaskHead `task`. Raises
    RuntimeError if the difference exceeds TOLERANCE of the largest score, and if
    attention direction, task head, or ids around a text differ.
    """
    again, tensors = load.load(folder), files.Tensors(folder)
    for name, x in (own or {}).items():
        if not np.array_equal(tensors.read(name, *map(slice, x.shape)), x):
            raise _differs(folder, f'{name} has other values')
    ends = model.ends()
    has_head = 'lm_head' in model.params
    pooled = sentence.Pooling(model.pool, model.normalize, model.length)
    for what, is_now, was in (
        ('its causality', again.causal, model.causal),
        ('(begin, end)', (again.begin, again.end), ends),
        ('the shift of its head', again.shift, model.shift if has_head else 0),
        ('its pooling', again.pooling, pooled),
        ('the head of its task', _settings(again.task), _settings(task)),
    ):
        if is_now != was:
            raise _differs(folder, f'{what} is {is_now}, not {was}')
    if how := vocabulary.difference(folder, model):
        raise _differs(folder, how)
    batch = _sample(model, ends)
    wanted = _logits(model.network.encoder, model, to_family.tied(model), batch)
    logits = _logits(again.encoder, again, again.tied, batch)
    difference = float(np.abs(logits - wanted).max())
    # In this form NaN fails, too.
    if not difference <= TOLERANCE * max(1.0, float(np.abs(wanted).max())):
        raise _differs(folder, f'scores differ by {difference:.1e}')
    return difference


def _settings(task):
    """The fields of a TaskHead that are not stored as tensors."""
    if task is None:
        return None
    pool = task.pool if task.kind == 'sequence' else ''
    return task.kind, task.labels, pool, task.layers, task.is_score


def check_free(folder):
    """The folder as a Path; raises FileExistsError unless it is empty or missing, and
    PermissionError if it cannot be written."""
    folder = Path(paths.local('The folder to write', folder))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(
            f'{folder} exists already and is not overwritten: give another --to, or '
            'delete it first.'
        )
    atomic.check_writable(folder.resolve().parent)
    return folder


def _sample(model, ends):
    """tokens, segment_ids, positions [B, L] of two texts of random tokens."""
    specials = model.tokenizer.special_ids
    token_ids = np.setdiff1d(np.arange(model.tokenizer.vocab_size), specials)
    begin, end = ends
    room = min(model.length, 48) - len(begin) - len(end)
    rng = np.random.default_rng(0)
    rows = [
        np.array([*begin, *rng.choice(token_ids, size), *end], np.int32)
        for size in (room, room - room // 3)
    ]
    return model.pad(rows, len(rows))


def _logits(encoder, model, tied, batch):
    """Float32 logits, or hidden states without a head, at all real positions."""
    # A model that is read back has the same encoder, so it is compiled once.
    head, encoder = heads.lm_head(encoder, tied), encoder.clone(dtype='float32')
    run = heads.compiled_logits(encoder, head, model.causal)
    return np.asarray(run(model.params, *batch))[batch[1] > 0]


def _differs(folder, how):
    return RuntimeError(
        f'{folder} was read back as another model: {how}. It was deleted. Please report '
        "this with the model's config."
    )
