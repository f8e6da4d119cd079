"""Loads pretrained, fine-tuned and Hugging Face models: `load(name)`.

The result has `encode(texts)`, `fill(text)` and, if fine-tuned, `predict(texts)`. A
folder or hub name of Hugging Face is loaded with `load('hf:NAME_OR_FOLDER')`.
"""

import dataclasses
import functools
import os

import jax

from jepa_text.data import section, tokenizers
from jepa_text.files import addresses, checksums, paths
from jepa_text.hf import files as hf_files
from jepa_text.hf import load as hf_load
from jepa_text.models import stack
from jepa_text.models.network import Network
from jepa_text.parallel import sharding
from jepa_text.pretrained import base, exported, facts, saved
from jepa_text.pretrained.model import Pretrained
from jepa_text.running import budget, identity, metrics, places, restore, xla_flags
from jepa_text.settings import resolve

_TOKENS = 'train/total_positions'
# {section.key of a phase of version 0.1: its name now}; below 1, a length was a fraction.
_KEYS_OF_0_1 = {
    **{
        f'{section}.{key}': f'{key}_steps or {key}_fraction'
        for section in ('rate', 'momentum', 'of')
        for key in ('warmup', 'decay', 'first')
    },
    'phases.share': 'fraction',
    'balance.every': 'every_steps',
}


def load(
    name: str | os.PathLike,
    step: int | None = None,
    *,
    mesh: jax.sharding.Mesh | None = None,
    revision: str | None = None,
    family: str | None = None,
    adapt: dict | None = None,
) -> Pretrained:
    """The model of a run, of a folder that `Pretrained.save` or `jepa-text finetune`
    wrote; of a name that the package ships, as 'small'; or, with the prefix 'hf:', of a
    folder of Hugging Face or a name on the hub.

    step        of a run: that of the checkpoint; None: the newest good one
    mesh        shards the parameters by the table of parallel/sharding.py; its axes are
                some of data, fsdp, context and tensor. Texts are sharded over data and
                fsdp
    revision, family, adapt     of 'hf:' models: as in hf/load.load

    The attention of a run is that of the objective at that step, causal after CLM; for
    bidirectional attention, use `dataclasses.replace(model, causal=False)`. A folder on
    gs:// or s3:// is copied to this machine once (running/places.py). Raises
    FileNotFoundError if the folder contains no run or no good checkpoint.
    """
    xla_flags.apply()
    mesh = mesh and sharding.completed(mesh)
    options = {'revision': revision, 'family': family, 'adapt': adapt}
    name = hf_files.named(name)
    if addresses.location('The model', name, model=True).startswith(paths.MODEL):
        if step is not None:
            raise _without_steps(name, step)
        place = str(name).removeprefix(paths.MODEL)
        model = _of_import(str(name), hf_load.load(place, mesh=mesh, **options))
    elif given := [key for key, value in options.items() if value is not None]:
        raise ValueError(
            f'{", ".join(given)}: only for Hugging Face models, whose names start with '
            f"'hf:'; {name} is a workdir."
        )
    else:
        folder = places.model_folder('The model', name, step)
        if saved.is_saved(folder):
            if step is not None:
                raise _without_steps(name, step)
            model = Pretrained(name=str(name), **saved.read(folder))
        else:
            step, model = abstract(folder, step, str(name))
            modules = ('encoder', 'lm_head')
            wanted = {key: x for key, x in model.params.items() if key in modules}
            wanted = {'params': sharding.sharded(wanted, mesh) if mesh else wanted}
            found = restore.part(folder / 'checkpoints', step, wanted)
            model = dataclasses.replace(model, **found)
    if mesh is None:
        return model
    placed = sharding.shardings(model.params, mesh)
    return dataclasses.replace(model, params=jax.device_put(model.params, placed))


def _without_steps(name, step):
    return ValueError(
        f'{name} has no steps, so step={step} has no meaning: leave it out. For another '
        'version of a model on the hub, use revision.'
    )


def outline(workdir, weights=False):
    """The model that `load` would return, without parameters, or with their shapes.

    Of a model on the hub, only JSON files are downloaded, and whether it has an LM head
    is unknown; with `weights`, all is, so that a missing file is reported now. If the hub
    cannot be reached, the cache is used. Raises as `load` does.
    """
    name, folder = _place(workdir)
    if folder is None:
        return _of_import(f'{paths.MODEL}{name}', hf_load.outline(name, weights))
    if saved.is_saved(folder):
        return Pretrained(name=name, **saved.outline(folder)[0])
    return abstract(folder, name=name)[1]


def fingerprint(workdir):
    """A checksum of what `load` would return, computed from the files without loading.

    It does not depend on the location, and changes when a run continues. Raises as `load`
    does.
    """
    name, folder = _place(workdir)
    if folder is None:
        return hf_files.fingerprint(name)
    model = outline(workdir)
    if saved.is_saved(folder):
        weights = saved.outline(folder)[-1]['sha256']
    else:
        checkpoints = folder / 'checkpoints'
        weights = restore.identity(checkpoints, restore.newest_good(checkpoints)[0])
    reading = [getattr(model, key) for key in saved.READING]
    encoder, tokenizer = repr(model.network.encoder), model.tokenizer.fingerprint
    return checksums.checksum([encoder, tokenizer, reading, weights])


def abstract(workdir, step=None, name=''):
    """(step, the model at it) of a local run; its parameters, of all modules, are shapes.

    `name` is that of the model. Raises FileNotFoundError as `load` does.
    """
    name = name or str(workdir)
    config, tokenizer = _read(workdir, name)
    folder = workdir / 'checkpoints'
    if step is not None:
        meta = restore.meta(folder, step)
    elif newest := restore.newest_good(folder):
        step, meta = newest
    else:
        raise FileNotFoundError(f'{folder} has no good checkpoint: train first.')
    identity.check(name, config, tokenizer, meta)
    model = _model(config, tokenizer, meta, meta['phase'], f'{name} at step {step}')
    judged_by = model.network.objective.judged_by
    given = step, config, meta['history'], judged_by
    known = functools.partial(facts.of_run, workdir.resolve(), *given)
    return step, dataclasses.replace(model, facts=known)


def trained(workdir):
    """How long a run was trained, {'steps', 'tokens'}; {} for a model of another kind."""
    _, folder = _place(workdir)
    step, values = metrics.newest(folder, _TOKENS) if folder else (None, {})
    return {'steps': step, 'tokens': values[_TOKENS]} if values else {}


def _place(workdir):
    """(name of the model, its local folder); for 'hf:', (name or folder, None)."""
    name = addresses.location('The model', hf_files.named(workdir), model=True)
    if name.startswith(paths.MODEL):
        return name.removeprefix(paths.MODEL), None
    return name, places.model_folder('The model', name)


def _of_import(name, imported):
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
    kind = imported.task and exported.kind_of(imported.task)
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
    if not (folder / 'config.json').is_file():
        raise FileNotFoundError(
            f'{name} contains no config.json, so it is no run of jepa-text. Give a '
            f'shipped model ({", ".join(hf_files.shipped())}), the --workdir of a '
            f"training run, or 'hf:' and a name on the hub or a folder, as hf:{name}; of "
            'what model.save or finetune wrote, `jepa-text export` writes one.'
        )
    config = checksums.read_json(folder / 'config.json')
    if 'model_type' in config:
        raise ValueError(f"{name} is a folder of Hugging Face: write 'hf:{name}'.")
    return config, tokenizers.load(folder / 'tokenizer.json')


def _of_now(value, section):
    """Phases of a run of version 0.1 with the names of their keys in this version."""
    if isinstance(value, list | tuple):
        return [_of_now(item, section) for item in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for key, item in value.items():
        new, _, fraction = _KEYS_OF_0_1.get(f'{section}.{key}', key).partition(' or ')
        is_fraction = fraction and 0 < item < 1
        made[fraction if is_fraction else new] = _of_now(item, key)
    return made


def _model(config, tokenizer, meta, phase, name):
    """A model whose parameters are only shapes; `meta` is that of a checkpoint, or {}."""
    encoder = {key: x for key, x in config['model'].items() if key != 'attention'}
    phases = _of_now(config['phases'], 'phases')
    own = phases[phase]
    encoder = stack.changed(encoder, {'rope_theta': own.get('rope_theta')})
    encoder = resolve.build('models', encoder, vocab_size=tokenizer.vocab_size)
    # The kernel is chosen again: the model may be used on another machine.
    encoder = encoder.clone(attention='auto')
    length = section.changed(config['data'], own.get('data'))['row_length']
    total = config.get('steps') or meta.get('steps')
    # That of an older run follows from its budget in tokens.
    total = total or budget.total_steps(config)
    start, stop = budget.spans(phases, total)[phase]
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
