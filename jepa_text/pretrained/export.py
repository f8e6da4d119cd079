"""Exports a model to a folder for `transformers` and `sentence-transformers`.

    config.json                                                       to_family.py
    model.safetensors, or shards and their index                      weights.py
    tokenizer.json, tokenizer_config.json, special_tokens_map.json    vocabulary.py
    modules.json, 1_Pooling/, sentence_bert_config.json               sentence.py
    README.md                                                         card.py

The folder is created atomically, after it was read back and gave the model's scores.
"""

import contextlib
import dataclasses
import tempfile
from pathlib import Path

import numpy as np

from jepa_text.files import addresses, atomic, checksums, paths
from jepa_text.hf import card, files, load, sentence, to_family, vocabulary, weights
from jepa_text.hf.families import FAMILIES
from jepa_text.models import heads, pooling
from jepa_text.pretrained import base, exported, saved
from jepa_text.pretrained import load as loading
from jepa_text.report import frequencies
from jepa_text.running import metrics, places, restore

INIT_FROM = 'init_from.json'
TOLERANCE = 1e-4


def run(options, workdir):
    """The export command: exports a run or an 'hf:' model to `options['to']`.

    Other options: step, family, license. Raises as `load.load`, `of_run` and `write` do.
    """
    given = {key: options.get(key) for key in ('step', 'family', 'license', 'to')}
    if not given['to']:
        raise ValueError('--to is missing: the folder to write, such as exports/first.')
    check_free(given['to'])
    place = addresses.location('--workdir', workdir, model=True)
    if place.startswith(paths.MODEL):
        model, facts = loading.load(place, given['step']), None
    else:
        run = places.model_folder('--workdir', place, given['step'])
        if (run / saved.FILE).is_file() and given['step'] is None:
            model = loading.load(run)
            facts = card.Facts(tuned=saved.outline(run)[-1]['made'])
        else:
            model, facts = of_run(run, given['step'])
    settings = {'family': given['family'], 'license_name': given['license']}
    with _place(given['to']) as folder:
        info = write(model, folder, facts=facts, **settings)
    print(
        f'{given["to"]}: {info["architecture"]}, {info["parameters"]:,} parameters; '
        f'verified after reading it back (largest difference {info["difference"]:.1e})'
    )


@contextlib.contextmanager
def _place(folder):
    """Yields where to write a folder: there, or for an address a temporary folder.

    The temporary folder is uploaded at the end.
    """
    if not addresses.is_address(folder):
        yield folder
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield f'{temporary}/model'
        addresses.upload_folder(f'{temporary}/model', folder)


def of_run(workdir, step=None):
    """(load.Pretrained, card.Facts) of a run."""
    step, _ = loading.abstract(workdir, step)
    model = loading.load(workdir, step)
    name = f'{Path(workdir).resolve().name}-{step}'
    return dataclasses.replace(model, name=name), facts_of(model, workdir, step)


def facts_of(model, workdir, step):
    """The card.Facts of a run at a step, given its model."""
    workdir = Path(workdir)
    config = checksums.read_json(workdir / 'config.json')
    history = tuple(restore.meta(workdir / 'checkpoints', step)['history'])
    measured_at, measured = metrics.newest(workdir, frequencies.PREFIX, step)
    kind = model.network.objective.judged_by
    return card.Facts(
        step=step,
        history=history,
        measured=measured,
        measured_at=measured_at,
        sentences=tuple(frequencies.sentences(measured, kind)),
        init_from=_init_from(workdir, config),
    )


def _init_from(workdir, config):
    """The record of the model that a run started from, with paths reduced to names."""
    path = (config.get('init_from') or {}).get('path')
    if not path or not (workdir / INIT_FROM).is_file():
        return None
    record = checksums.read_json(workdir / INIT_FROM)
    # The record of an imported folder does not contain the prefix 'hf:'.
    for text in (path, path.removeprefix('hf:')):
        public = str(card.public_name(text))
        record['lines'] = [line.replace(text, public) for line in record['lines']]
    return record


def write(
    model,
    folder,
    *,
    family=None,
    facts=None,
    license_name=None,
    shard_bytes=weights.MAXIMUM,
):
    """Writes the folder of a load.Pretrained, reads it back, and compares.

    `family` is one of families.FAMILIES, None for the default; `facts` are shown on the
    model card. The head of the model's fine-tuning replaces the LM head. Returns
    {'family', 'architecture', 'parameters', 'difference'}. Raises FileExistsError for a
    folder that is not empty, ValueError if the family cannot express the model,
    RuntimeError if it reads back as another model; then nothing is left behind.
    """
    folder = check_free(folder)
    origin = _origin(model, facts)
    pooling.check(model.pool, model.ends()[0], (), model.tokenizer.special_ids)
    encoder = model.network.encoder
    if family is None and model.kind is not None:
        family = exported.family_of(model, model.kind)
    if family is None:
        family = to_family.usual_family(encoder, model.causal, origin)
    task = None
    if model.params.get(base.HEAD):
        task = exported.head_of(model.kind, model.params[base.HEAD])
        # Checked first: whether the family has its layers.
        task.fitting(family)
        params = {'encoder': model.params['encoder']}
        model = dataclasses.replace(model, params=params)
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
        weights.write(leaves, own, FAMILIES[family], partial, shard_bytes, prefix)
        vocabulary.write(partial, model, family)
        pooling_of = sentence.Pooling(model.pool, model.normalize, model.length)
        sentence.write(partial, pooling_of, encoder.width)
        about = (info['architecture'], info['parameters'], facts, license_name)
        (partial / 'README.md').write_text(card.text(model, *about), encoding='utf-8')
        info['difference'] = compared(model, partial, task, own)
        check_free(folder)
    return info


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
    """The folder as a Path, or the address; FileExistsError unless empty or missing."""
    if addresses.is_address(folder):
        addresses.check_free(addresses.location('--to', folder))
        return folder
    folder = Path(paths.local('The folder to write', folder))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(
            f'{folder} exists already and is not overwritten: give another --to, or '
            'delete it first.'
        )
    return folder


def _origin(model, facts):
    """The family that a model was imported from; None if it was trained here."""
    for record in (model.record, facts and facts.init_from):
        if record:
            return record.get('family')
    return None


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
    run = heads.compiled_logits(encoder.clone(dtype='float32'), tied, model.causal)
    return np.asarray(run(model.params, *batch))[batch[1] > 0]


def _differs(folder, how):
    return RuntimeError(
        f'{folder} was read back as another model: {how}. It was deleted. Please report '
        "this with the model's config."
    )
