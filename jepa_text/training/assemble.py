"""Assembles a Recipe from a config: each part is built from its section, once.

make      for training: with rows, evaluations and the devices of this machine
outline   for a plan: on any devices, before rows exist
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import psutil

from jepa_text.config import resolve, schema
from jepa_text.data import section, tokenizers
from jepa_text.data.rows import downloaded, row_folder
from jepa_text.optim import multipliers, optimizers, schedules
from jepa_text.parallel import sharding
from jepa_text.running import budget, identity, profiling
from jepa_text.training import config as settings
from jepa_text.training import contract, data_position, extend, named_tokenizer, phases
from jepa_text.training.recipe import Loop, Recipe, shapes

OFFLOADED = {'': '', 'optimizer': 'opt_state'}


def size(config, devices=None):
    """Returns (rows per step, steps of the run) on `devices` devices.

    The default is the devices of this machine. Raises ValueError for a budget in tokens
    if a phase reads other data, so that steps have different sizes.
    """
    devices = jax.device_count() if devices is None else devices
    steps, tokens = config.get('steps', 0), config.get('tokens', 0)
    if tokens and any(phase.get('data') for phase in config['phases']):
        raise ValueError(
            f'tokens={tokens:,}, but a phase has its own data, so steps differ in '
            'size. Set steps instead.'
        )
    return budget.size(config['data'], devices, steps, tokens)


def outline(config, mesh, vocab_size=None):
    """Returns the Recipe of a config on a mesh, without rows; only reads a tokenizer.

    Raises ValueError for settings that do not fit together.
    """
    parsed = schema.read(settings.Config, config)
    return _recipe(config, parsed, mesh, tokenizer_of(config, vocab_size))


def make(config, evaluations=()):
    """Returns the Recipe of a config on the devices of this machine.

    `evaluations` are pairs (section of the config, function of (recipe, section) that
    returns what runs during training, or None), as in training/evals. Raises ValueError
    for settings that do not fit together.
    """
    parsed = schema.read(settings.Config, config)
    folder = downloaded.fetch(_first_folder(config), shards=False)
    row_folder.read_manifest(folder)
    tokenizer = tokenizers.load(folder / 'tokenizer.json')
    recipe = _recipe(config, parsed, mesh(config), tokenizer)
    recipe = dataclasses.replace(
        recipe, phases=data_position.with_mixtures(recipe.phases, tokenizer)
    )
    data_position.check(recipe.phases, parsed.data.repeat)
    _check_batch(recipe, parsed.accumulate)
    _check_memory(recipe, parsed.accumulate)
    if parsed.baseline == 'none':  # with_baseline checks those of a matched baseline
        check_lr_multipliers(recipe, parsed.optimizer)
    made = [make(recipe, getattr(parsed, name)) for name, make in evaluations]
    known = {name for name, _ in evaluations}
    notes = [
        f'{name}.every={getattr(parsed, name).every}, but no evaluation of that name was '
        'passed to train().'
        for name in ('evaluate', 'geometry')
        if getattr(parsed, name).every and name not in known
    ]
    return dataclasses.replace(
        recipe,
        evaluations=tuple(filter(None, made)),
        notes=(*recipe.notes, *notes),
    )


def objectives(config):
    """Returns the objectives of a config, made with the bundled tokenizer."""
    sections, total = config['phases'], size(config, devices=1)[1]
    return [
        resolve.build(
            'objectives',
            phase['objective'],
            tokenizer=tokenizers.load(tokenizers.BUNDLED),
            length=section.changed(config['data'], phase.get('data'))['row_length'],
            steps=stop - start,
        )
        for phase, (start, stop) in zip(sections, budget.spans(sections, total))
    ]


def check_lr_multipliers(recipe, section):
    """Raises ValueError if a pattern of the section `optimizer` matches no parameter."""
    trees = [shapes(recipe, phase).params for phase in recipe.phases]
    multipliers.check(section, trees)


def _recipe(config, parsed, mesh, tokenizer):
    total = size(config, mesh.size)[1]
    extensions = parsed.extended or ()
    optimizer = optimizers.make(parsed.optimizer)
    make_phases = functools.partial(
        phases.make,
        data=config['data'],
        devices=mesh.size,
        model=parsed.model,
        tokenizer=tokenizer,
        schedule=schedules.for_run(parsed.schedule, total, extensions),
        optimizer=optimizer,
        clip_norm=parsed.clip_norm,
        accumulate=parsed.accumulate,
        diagnostics_every=parsed.telemetry.every,
    )
    made = make_phases(config['phases'], total)
    recipe = Recipe(
        seed=parsed.seed,
        steps=total,
        tokenizer=tokenizer,
        mesh=mesh,
        optimizer=optimizer,
        phases=made,
        make_phases=make_phases,
        offload=OFFLOADED[parsed.offload],
        init_from=parsed.init_from,
        loop=_loop(parsed),
        identity=identity.fingerprints(config, tokenizer),
        notes=(
            *extend.lines(
                extensions,
                parsed.schedule,
                total,
                made[-1].name,
                extend.stretched(extensions, made[-1], tokenizer),
            ),
            *_unreachable(parsed.checkpoint.keep_at, total),
        ),
    )
    _check_context(recipe)
    for phase in recipe.phases:
        contract.check(recipe, phase, parsed.model)
    return recipe


def _unreachable(keep_at, total):
    """Yields a note if checkpoints are to be kept at steps after the last one."""
    if beyond := [step for step in keep_at if step > total]:
        listed = ', '.join(f'{step:,}' for step in beyond)
        yield f'checkpoint.keep_at: {listed} lies beyond the last step, {total:,}.'


def _loop(parsed):
    return Loop(
        name=parsed.name,
        log_every=parsed.log_every,
        stop_after_skips=parsed.stop_after_skips,
        stop_at_collapse=parsed.telemetry.on_collapse == 'stop',
        save_every=parsed.checkpoint.every,
        keep=parsed.checkpoint.keep,
        keep_every=parsed.checkpoint.keep_every,
        keep_at=frozenset(parsed.checkpoint.keep_at),
        threads=parsed.data.threads,
        profile_steps=profiling.span(parsed.profile_steps),
        wandb=parsed.metrics.wandb,
    )


def mesh(config):
    """Returns the mesh of the devices of this job."""
    return sharding.make_mesh(**config['mesh'])


def tokenizer_of(config, vocab_size=None):
    """Returns the tokenizer of the rows.

    Before rows exist, returns the tokenizer that `prepare` would use, or, if that does
    not exist either, a stand-in with `vocab_size` tokens. Raises ValueError if none of
    them is available.
    """
    folder = _first_folder(config)
    if folder and downloaded.exists(folder, 'tokenizer.json'):
        return tokenizers.load(downloaded.fetch(folder, shards=False) / 'tokenizer.json')
    wanted = (config.get('prepare') or {}).get('tokenizer', '')
    if named_tokenizer.exists(wanted):
        return named_tokenizer.opened(wanted, config.get('init_from')).tokenizer
    if vocab_size:
        bundled = tokenizers.load(tokenizers.BUNDLED)
        return dataclasses.replace(bundled, vocab_size=vocab_size)
    raise ValueError(
        f'The size of the vocabulary is unknown: data.folder={folder!r} has no '
        f'tokenizer.json, and prepare.tokenizer={wanted!r} does not exist. Set one of '
        'them, or plan.vocab_size.'
    )


def _first_folder(config):
    """The first folder of rows of the first phase; its tokenizer is that of the run."""
    own = section.changed(config['data'], config['phases'][0].get('data'))
    return section.folders(own)[0][0]


def _check_batch(recipe, accumulate):
    ways = recipe.mesh.shape['data'] * recipe.mesh.shape['fsdp']
    for phase in recipe.phases:
        if phase.batch_size % (ways * accumulate):
            prefix = f'phases[{phase.index}].' if phase.section.get('data') else ''
            raise ValueError(
                f'{prefix}data.batch_size={phase.batch_size} is not a multiple of {ways} '
                f'(mesh data x fsdp) x {accumulate} (accumulate). Change one of them.'
            )


def _check_memory(recipe, accumulate):
    """Raises ValueError if a step cannot fit in the memory of a machine without GPUs.

    What it needs at least is the state, and for the backward pass the input of each layer
    whatever is rematerialized. `plan` estimates what it needs in fact.
    """
    if jax.default_backend() != 'cpu' or jax.process_count() > 1:
        return
    memory = psutil.virtual_memory().total
    for phase in recipe.phases:
        encoder, rows = phase.network.encoder, phase.batch_size // accumulate
        dtype = getattr(encoder, 'dtype', 'bfloat16')
        hidden = phase.length * encoder.width * jnp.dtype(dtype).itemsize
        leaves = jax.tree.leaves(shapes(recipe, phase))
        state = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
        needed = state + rows * hidden * encoder.depth
        if needed > memory:
            raise ValueError(
                f'phase {phase.index}: a step of {rows:,} rows of {phase.length} tokens '
                f'needs more than {needed / 2**30:,.1f} GiB, but this machine has '
                f'{memory / 2**30:,.1f} GiB. Lower data.batch_size, or raise accumulate '
                f'(now {accumulate}); `jepa-text plan` shows what fits.'
            )


def _check_context(recipe):
    """Raises ValueError if the mesh axis `context` cannot split the rows or the heads."""
    tensor, context = (recipe.mesh.shape[axis] for axis in sharding.HEADS)
    if context == 1:
        return
    for phase in recipe.phases:
        for name, module in phase.network.modules.items():
            heads = getattr(module, 'heads', 0)
            if phase.length % context or heads % (context * tensor):
                raise ValueError(
                    f'mesh.context={context} must divide rows of {phase.length} tokens, '
                    f'and context x tensor = {context * tensor} must divide the {heads} '
                    f'heads of the {name}. Change one of them.'
                )
