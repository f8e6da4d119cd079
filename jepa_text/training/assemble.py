"""Config -> Recipe: each part is made of its section, once.

outline   of devices that may be elsewhere, before there are rows: what a plan knows
make      with the rows, the devices that are here, and evaluations
"""

import dataclasses
import functools

import jax

from jepa_text.config import schema
from jepa_text.data import section, tokenizers
from jepa_text.data.rows import downloaded, row_folder
from jepa_text.optim import optimizers, schedules
from jepa_text.parallel import sharding
from jepa_text.running import budget, identity, profiling
from jepa_text.training import config as settings
from jepa_text.training import data_position, extend, named_tokenizer, phases
from jepa_text.training.recipe import Loop, Recipe, shapes

OFFLOADED = {'': '', 'optimizer': 'opt_state'}


def size(config, devices=None):
    """(rows of a step, steps of the run), on the devices that are here or so many.

    Raises ValueError for a budget in tokens where phases read otherwise.
    """
    devices = jax.device_count() if devices is None else devices
    steps, tokens = config.get('steps', 0), config.get('tokens', 0)
    if tokens and any(phase.get('data') for phase in config['phases']):
        raise ValueError(
            f'tokens={tokens:,}, but a phase has data of its own, so that steps differ: '
            'give steps.'
        )
    return budget.size(config['data'], devices, steps, tokens)


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
    folder = downloaded.here(_first_folder(config), shards=False)
    row_folder.read_manifest(folder)
    tokenizer = tokenizers.load(folder / 'tokenizer.json')
    recipe = _recipe(config, asked, mesh(config), tokenizer)
    recipe = dataclasses.replace(
        recipe, phases=data_position.opened(recipe.phases, tokenizer)
    )
    data_position.check(recipe.phases, asked.data.repeat)
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
    total, past = size(config, mesh.size)[1], asked.extended or ()
    optimizer = optimizers.make(asked.optimizer)
    make_phases = functools.partial(
        phases.make,
        data=config['data'],
        devices=mesh.size,
        model=asked.model,
        tokenizer=tokenizer,
        schedule=schedules.of_run(asked.schedule, total, past),
        optimizer=optimizer,
        clip_norm=asked.clip_norm,
        accumulate=asked.accumulate,
        diagnostics_every=asked.telemetry.every,
    )
    made = make_phases(config['phases'], total)
    recipe = Recipe(
        seed=asked.seed,
        steps=total,
        tokenizer=tokenizer,
        mesh=mesh,
        optimizer=optimizer,
        phases=made,
        make_phases=make_phases,
        offload=OFFLOADED[asked.offload],
        init_from=asked.init_from,
        loop=_loop(asked),
        identity=identity.sums(config, tokenizer),
        notes=(
            *extend.lines(past, asked.schedule, total, made[-1].name),
            *_beyond(asked.checkpoint.keep_at, total),
        ),
    )
    _check_context(recipe)
    return recipe


def _beyond(keep_at, total):
    """A note about milestones that the run never comes to."""
    if beyond := [step for step in keep_at if step > total]:
        listed = ', '.join(f'{step:,}' for step in beyond)
        yield f'checkpoint.keep_at: {listed} lies beyond the last step, {total:,}.'


def _loop(asked):
    return Loop(
        name=asked.name,
        log_every=asked.log_every,
        stop_after_skips=asked.stop_after_skips,
        stop_at_collapse=asked.telemetry.on_collapse == 'stop',
        save_every=asked.checkpoint.every,
        keep=asked.checkpoint.keep,
        keep_every=asked.checkpoint.keep_every,
        keep_at=frozenset(asked.checkpoint.keep_at),
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
    folder = _first_folder(config)
    if folder and downloaded.is_there(folder, 'tokenizer.json'):
        return tokenizers.load(downloaded.here(folder, shards=False) / 'tokenizer.json')
    wanted = (config.get('prepare') or {}).get('tokenizer', '')
    if named_tokenizer.is_there(wanted):
        return named_tokenizer.opened(wanted, config.get('init_from')).tokenizer
    if vocab_size:
        bundled = tokenizers.load(tokenizers.BUNDLED)
        return dataclasses.replace(bundled, vocab_size=vocab_size)
    raise ValueError(
        f'How many tokens has the vocabulary? data.folder={folder!r} has no '
        f'tokenizer.json, and prepare.tokenizer={wanted!r} is not there. Set one of '
        'them, or plan.vocab_size.'
    )


def _first_folder(config):
    """The folder of rows that is read first, whose tokenizer is that of all."""
    own = section.changed(config['data'], config['phases'][0].get('data'))
    return section.folders(own)[0][0]


def _check_batch(recipe, accumulate):
    ways = recipe.mesh.shape['data'] * recipe.mesh.shape['fsdp']
    for phase in recipe.phases:
        if phase.batch_size % (ways * accumulate):
            own = f'phases[{phase.index}].' if phase.section.get('data') else ''
            raise ValueError(
                f'{own}data.batch_size={phase.batch_size} is not a multiple of {ways} '
                f'(mesh data x fsdp) x {accumulate} (accumulate); change one of them.'
            )


def _check_context(recipe):
    """Raises ValueError for rows and heads that the axis `context` cannot split."""
    tensor, context = (recipe.mesh.shape[axis] for axis in sharding.HEADS)
    if context == 1:
        return
    for phase in recipe.phases:
        heads = phase.network.encoder.heads
        if phase.length % context or heads % (context * tensor):
            raise ValueError(
                f'mesh.context={context} splits rows of {phase.length} tokens, and in '
                f'attention, with tensor={tensor}, {heads} heads: both must divide. '
                'Change one of them.'
            )
