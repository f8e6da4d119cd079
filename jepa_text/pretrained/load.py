"""Loads pretrained, fine-tuned and Hugging Face models: `load(workdir)`.

The result has `encode(texts)`, `fill(text)` and, if fine-tuned, `predict(texts)`. A
folder or hub name of Hugging Face is loaded with `load('hf:NAME_OR_FOLDER')`.
"""

import dataclasses
import functools

import jax

from jepa_text.data import section, tokenizers
from jepa_text.files import addresses, checksums, paths
from jepa_text.hf import files as hf_files
from jepa_text.hf import load as hf_load
from jepa_text.models import stack
from jepa_text.models.network import Network
from jepa_text.pretrained import base, exported, saved
from jepa_text.pretrained.model import Pretrained
from jepa_text.running import budget, identity, places, restore, xla_flags
from jepa_text.settings import renamed, resolve


def load(workdir, step=None, **options):
    """The model of a workdir's newest good checkpoint, or of the one at `step`.

    Its attention is that of the objective at that step, causal after CLM; for
    bidirectional attention, use `dataclasses.replace(model, causal=False)`.
    The folder of `jepa-text finetune` gives a model that can `predict`. A workdir on
    gs:// or s3:// is copied to this machine once (running/places.py). With the prefix
    'hf:', `workdir` is a folder in Hugging Face's format or a name on the hub, and
    `options` are those of hf/load.load: revision, adapt, family, mesh. Raises
    FileNotFoundError if the folder contains no run or no good checkpoint.
    """
    xla_flags.apply()
    if addresses.location('The model', workdir, model=True).startswith(paths.MODEL):
        if step is not None:
            raise ValueError(
                f'{workdir} has no steps, so step={step} has no meaning: leave it out. '
                'For another version of a model on the hub, use revision.'
            )
        name = str(workdir)
        return _of_import(name, hf_load.load(name.removeprefix(paths.MODEL), **options))
    if options:
        raise ValueError(
            f'{", ".join(options)}: only for Hugging Face models, whose names start with '
            f"'hf:'; {workdir} is a workdir."
        )
    folder = places.model_folder('The model', workdir, step)
    if (folder / saved.FILE).is_file() and step is None:
        kind, network, params, tokenizer, reading = saved.read(folder)
        given = dict(name=str(workdir), kind=kind, **reading)
        return Pretrained(network, params, tokenizer, **given)
    step, model = _abstract(folder, str(workdir), step)
    names = ('encoder', 'lm_head')
    wanted = {name: shapes for name, shapes in model.params.items() if name in names}
    params = restore.part(folder / 'checkpoints', step, {'params': wanted})['params']
    return dataclasses.replace(model, params=params)


def outline(workdir, weights=False):
    """The model that `load` would return, without parameters, or with their shapes.

    Of a model on the hub, only JSON files are downloaded, and whether it has an LM head
    is unknown; with `weights`, all is, so that a missing file is reported now. If the hub
    cannot be reached, the cache is used. Raises as `load` does.
    """
    name, folder = _place(workdir)
    if folder is None:
        return _of_import(f'{paths.MODEL}{name}', hf_load.outline(name, weights))
    if (folder / saved.FILE).is_file():
        _, network, tokenizer, reading, _ = saved.outline(folder)
        return Pretrained(network, {}, tokenizer, name=name, **reading)
    return _abstract(folder, name)[1]


def fingerprint(workdir):
    """A checksum of what `load` would return, computed from the files without loading.

    It does not depend on the location, and changes when a run continues. Raises as `load`
    does.
    """
    name, folder = _place(workdir)
    if folder is None:
        return hf_files.fingerprint(name)
    model = outline(workdir)
    if (folder / saved.FILE).is_file():
        weights = saved.outline(folder)[-1]['sha256']
    else:
        checkpoints = folder / 'checkpoints'
        weights = restore.identity(checkpoints, restore.newest_good(checkpoints)[0])
    reading = [getattr(model, key) for key in saved.READING]
    encoder, tokenizer = repr(model.network.encoder), model.tokenizer.fingerprint
    return checksums.checksum([encoder, tokenizer, reading, weights])


def abstract(workdir, step=None):
    """(step, the model at it), whose parameters, of all modules, are only shapes.

    Raises FileNotFoundError as `load` does.
    """
    return _abstract(
        places.model_folder('The workdir', workdir, step), str(workdir), step
    )


def _abstract(workdir, name, step=None):
    """`abstract` of a local folder; `name` is the model's name."""
    config, tokenizer = _read(workdir, name)
    folder = workdir / 'checkpoints'
    if step is not None:
        meta = restore.meta(folder, step)
    elif newest := restore.newest_good(folder):
        step, meta = newest
    else:
        raise FileNotFoundError(f'{folder} has no good checkpoint: train first.')
    identity.check(name, config, tokenizer, meta)
    return step, _model(config, tokenizer, meta, meta['phase'], f'{name} at step {step}')


def _place(workdir):
    """(name of the model, its local folder); for 'hf:', (name or folder, None)."""
    name = addresses.location('The model', workdir, model=True)
    if name.startswith(paths.MODEL):
        return name.removeprefix(paths.MODEL), None
    return name, places.model_folder('The model', name)


def _of_import(name, imported):
    """The model of a hf/load.Imported."""
    section = {'name': 'mlm', 'tied': imported.tied, 'shift': imported.shift}
    if imported.causal and imported.shift:
        section = {'name': 'clm', 'tied': imported.tied}
    objective = resolve.build(
        'objectives',
        section,
        tokenizer=imported.tokenizer,
        length=imported.length,
        steps=1,
    )
    pooling_of, params = imported.pooling, imported.params
    kind = imported.task and exported.kind_of(imported.task, imported.pair)
    if kind is not None:
        objective, params = kind, params | {base.HEAD: imported.task.params}
    return Pretrained(
        Network(imported.encoder, objective),
        params,
        imported.tokenizer,
        imported.length,
        name,
        causal=imported.causal,
        begin=imported.begin,
        end=imported.end,
        pool=pooling_of.pool if pooling_of else 'mean',
        normalize=pooling_of is not None and pooling_of.normalize,
        shift=imported.shift,
        record=imported.record,
        kind=kind,
    )


def untrained(workdir):
    """The model of a run with the random parameters of its seed, before any step.

    A run with `init_from` started from the parameters of another model instead. Attention
    and shift are those of the run's last phase, for comparison with its result.
    """
    folder = places.model_folder('The workdir', workdir)
    config, tokenizer = _read(folder, workdir)
    newest = restore.newest(folder / 'checkpoints', restore.meta)
    meta = newest[1] if newest else {}
    identity.check(workdir, config, tokenizer, meta)
    model = _model(config, tokenizer, meta, 0, f'{workdir} untrained')
    params = jax.jit(functools.partial(model.network.init, config['seed']))()
    last = _model(config, tokenizer, meta, -1, model.name)
    return dataclasses.replace(model, params=params, causal=last.causal, shift=last.shift)


def _read(folder, name):
    """(config, tokenizer) of a run."""
    if not (folder / 'config.json').is_file():
        raise FileNotFoundError(
            f'{name} contains no config.json, so it is no run of jepa-text: give the '
            '--workdir of a training run.'
        )
    config = checksums.read_json(folder / 'config.json')
    for key in ('model', 'phases'):
        renamed.check(config[key], str(folder / 'config.json'), ('', key))
    return config, tokenizers.load(folder / 'tokenizer.json')


def _model(config, tokenizer, meta, phase, name):
    """A model whose parameters are only shapes; `meta` is that of a checkpoint, or {}."""
    # The kernel is chosen again: the model may be used on another machine.
    encoder = {**config['model'], 'attention': 'auto'}
    own = config['phases'][phase]
    encoder = stack.with_theta(encoder, own.get('rope_theta'))
    encoder = resolve.build('models', encoder, vocab_size=tokenizer.vocab_size)
    length = section.changed(config['data'], own.get('data'))['row_length']
    total = config.get('steps') or meta.get('steps')
    # That of an older run follows from its budget in tokens.
    total = total or budget.total_steps(config)
    start, stop = budget.spans(config['phases'], total)[phase]
    objective = resolve.build(
        'objectives',
        own['objective'],
        tokenizer=tokenizer,
        length=length,
        steps=stop - start,
    )
    network, token = Network(encoder, objective), objective.token_objective
    params = jax.eval_shape(functools.partial(network.init, config['seed']))
    return Pretrained(
        network,
        params,
        tokenizer,
        length,
        name,
        causal=token is not None and token.attends == 'causal',
        shift=token.shift if token else 0,
    )
