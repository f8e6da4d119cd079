"""Config -> Recipe: each part is made of its section, once.

outline   of devices that may be elsewhere, before there are rows: what a plan knows
make      with the rows, the devices that are here, and evaluations
"""

import dataclasses
import functools
from pathlib import Path

import jax

from jepa_text.config import resolve, schema
from jepa_text.data import pipeline, tokenizers
from jepa_text.files import paths
from jepa_text.optim import optimizers, schedules
from jepa_text.parallel import sharding
from jepa_text.running import budget, identity, profiling
from jepa_text.training import config as settings
from jepa_text.training import extend, phases, prepare
from jepa_text.training.recipe import Loop, Recipe, shapes

OFFLOADED = {'': '', 'optimizer': 'opt_state'}


def size(config, devices=None):
    """(rows of a step, steps of the run), on the devices that are here or so many."""
    devices = jax.device_count() if devices is None else devices
    return budget.size(
        config['data'], devices, config.get('steps', 0), config.get('tokens', 0)
    )


def outline(config, mesh, vocab_size=None):
    """The Recipe of a config on a mesh, before there are rows; nothing is read but a
    tokenizer. Raises ValueError for what cannot work together."""
    asked = schema.read(settings.Config, config)
    return _recipe(config, asked, mesh, tokenizer_of(config, vocab_size))


def make(config, evaluations=()):
    """The Recipe of a config, on the devices that are here.

    `evaluations`, pairs of a section of the config and a function of (recipe, section),
    make what runs beside the steps (training/evals), or None. Raises ValueError for what
    cannot work together.
    """
    asked = schema.read(settings.Config, config)
    rows = pipeline.Rows(asked.data.folder, 'train')
    pipeline.check_row_length(rows.manifest, asked.data.row_length)
    tokenizer = tokenizers.load(f'{asked.data.folder}/tokenizer.json')
    pipeline.check_tokenizer(rows.manifest, tokenizer)
    recipe = _recipe(config, asked, mesh(config), tokenizer)
    recipe = dataclasses.replace(recipe, rows=rows)
    _check_batch(recipe, asked.accumulate)
    trees = [shapes(recipe, phase).params for phase in recipe.phases]
    optimizers.check_lr_multipliers(asked.optimizer, trees)
    made = [make(recipe, getattr(asked, name)) for name, make in evaluations]
    known = {name for name, _ in evaluations}
    notes = [
        f'{name}.every={getattr(asked, name).every}, but no evaluation was handed in.'
        for name in ('evaluate', 'geometry')
        if getattr(asked, name).every and name not in known
    ]
    return dataclasses.replace(
        recipe,
        evaluations=tuple(filter(None, made)),
        notes=(*recipe.notes, *notes),
    )


def _recipe(config, asked, mesh, tokenizer):
    rows, total = size(config, mesh.size)
    length, past = asked.data.row_length, asked.extended or ()
    encoder = resolve.build('models', asked.model, vocab_size=tokenizer.vocab_size)
    optimizer = optimizers.make(asked.optimizer)
    make_phases = functools.partial(
        phases.make,
        encoder=encoder,
        tokenizer=tokenizer,
        length=length,
        schedule=schedules.of_run(asked.schedule, total, past),
        optimizer=optimizer,
        clip_norm=asked.clip_norm,
        accumulate=asked.accumulate,
        diagnostics_every=asked.telemetry.every,
    )
    made = make_phases(config['phases'], total)
    return Recipe(
        seed=asked.seed,
        steps=total,
        batch_size=rows,
        length=length,
        tokenizer=tokenizer,
        mesh=mesh,
        encoder=encoder,
        optimizer=optimizer,
        phases=made,
        make_phases=make_phases,
        offload=OFFLOADED[asked.offload],
        init_from=asked.init_from,
        loop=_loop(asked),
        identity=identity.sums(config, tokenizer),
        notes=tuple(extend.lines(past, asked.schedule, total, made[-1].name)),
    )


def _loop(asked):
    return Loop(
        name=asked.name,
        log_every=asked.log_every,
        stop_after_skips=asked.stop_after_skips,
        stop_at_collapse=asked.telemetry.on_collapse == 'stop',
        save_every=asked.checkpoint.every,
        keep=asked.checkpoint.keep,
        keep_every=asked.checkpoint.keep_every,
        threads=asked.data.threads,
        profile_steps=profiling.span(asked.profile_steps),
        wandb=asked.metrics.wandb,
    )


def mesh(config):
    """The mesh of the devices that are here."""
    return sharding.make_mesh(**config['mesh'])


def tokenizer_of(config, vocab_size=None):
    """The tokenizer of the rows, if they are there; else the one that `prepare` would
    use; else a stand-in of `vocab_size` tokens.

    Raises ValueError where there is none of the three.
    """
    folder = config['data']['folder']
    prepared = Path(folder and paths.local('data.folder', folder), 'tokenizer.json')
    if folder and prepared.is_file():
        return tokenizers.load(prepared)
    wanted = (config.get('prepare') or {}).get('tokenizer', '')
    if wanted in ('bundled', 'init_from') or (wanted and Path(wanted).is_file()):
        return prepare.tokenizer_of(wanted, config.get('init_from'))
    if vocab_size:
        bundled = tokenizers.load(tokenizers.BUNDLED)
        return dataclasses.replace(bundled, vocab_size=vocab_size)
    raise ValueError(
        f'How many tokens has the vocabulary? data.folder={folder!r} has no '
        f'tokenizer.json, and prepare.tokenizer={wanted!r} is no file. Set one of them, '
        'or plan.vocab_size.'
    )


def _check_batch(recipe, accumulate):
    ways = recipe.mesh.shape['data'] * recipe.mesh.shape['fsdp']
    if recipe.batch_size % (ways * accumulate):
        raise ValueError(
            f'data.batch_size={recipe.batch_size} is not a multiple of {ways} (mesh data '
            f'x fsdp) x {accumulate} (accumulate); change one of them.'
        )
