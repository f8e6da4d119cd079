"""The config of a training run: all sections, keys and defaults, as one tree.

Each section is declared next to the code that uses it. Sections of type `dict` name a
file or a function, and are checked against its keyword arguments when it is called.
"""

import dataclasses

from jepa_text.data import section as reads
from jepa_text.files import addresses
from jepa_text.objectives.latent import diagnostics
from jepa_text.optim import optimizers
from jepa_text.parallel import hardware, sharding
from jepa_text.running import checkpoint as checkpoints
from jepa_text.running import watchdog as watchdogs
from jepa_text.settings import ranges, resolve, schema
from jepa_text.settings.schema import field
from jepa_text.training import heldout

# Arguments of objectives that the program passes.
GIVEN = ('tokenizer', 'length', 'steps')
# Keys of a study that do not belong to its runs.
OF_STUDIES = ('runs', 'seeds', 'engine', 'study', 'examine', 'report')
# Keys that may differ when a run is resumed: they do not change what it learns, except by
# rounding. '*' stands for any text.
MAY_CHANGE = (
    'name',
    'log_every_steps',
    'checkpoint',
    'evaluate.every_steps',
    'evaluate.tasks',
    'geometry',
    'mesh',
    # The folders may have moved; fingerprints of their rows are compared instead.
    *('data.folder', 'data.mixture.*.folder', 'data.mixture.*.name'),
    *('phases.*.data.folder', 'phases.*.data.mixture.*.folder'),
    'phases.*.data.mixture.*.name',
    'data.repeat',
    'model.attention',
    'model.remat',
    'phases.*.objective.*logits_mib',
    'stop_after_skips',
    'watchdog',
    'profile_steps',
    'plan',
    'prepare.engine',
)
ADAMW = {'name': 'adamw'}
WSD = {'name': 'wsd', 'peak': 5e-4, 'warmup_fraction': 0.05, 'decay_fraction': 0.2}


@dataclasses.dataclass(frozen=True)
class InitFrom:
    """The section `init_from`."""

    path: str = field(doc="'small', a run, or 'hf:' and a name or folder")
    step: int | None = field(None, 'of a run; None: the newest', minimum=0)
    revision: str | None = field(None, "revision of an 'hf:' model")
    family: str | None = field(None, "of an 'hf:' model; None: by its files")
    adapt: dict = field({}, "changes to an 'hf:' model: `jepa-text help adapt`")
    weights: str = field(
        'keep', "'new': only use its shape and tokenizer", choices=('keep', 'new')
    )
    head: str = field('keep', "'new': reinitialize the LM head", choices=('keep', 'new'))
    optimizer: str = field(
        'fresh', "'kept': keep the moments of a run", choices=('fresh', 'kept')
    )

    def __post_init__(self):
        from jepa_text.hf import files

        object.__setattr__(self, 'path', files.named(self.path))
        addresses.location('init_from.path', self.path, model=True)
        kept = self.optimizer == 'kept'
        if kept and 'new' in (self.weights, self.head):
            raise ValueError(
                "init_from: optimizer='kept' keeps parameters and moments, but weights="
                f"{self.weights!r} and head={self.head!r}. Use optimizer='fresh', or "
                "'keep' for both of the others."
            )
        if self.is_foreign and (self.step is not None or kept):
            raise ValueError(
                f'init_from: {self.path} has neither steps nor moments. Remove step, and '
                "use optimizer='fresh'."
            )
        if not self.is_foreign and any(self.options.values()):
            raise ValueError(
                'init_from: revision, family and adapt only apply to models whose path '
                f"begins with 'hf:', but {self.path} is a workdir. Remove them."
            )

    @property
    def is_foreign(self):
        """Whether the start is a model of hf/ instead of a run."""
        return self.path.startswith('hf:')

    @property
    def options(self):
        """Options of hf/load besides the name."""
        return dict(revision=self.revision, family=self.family, adapt=self.adapt or {})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Geometry:
    """The section `geometry`: uniformity and ranks of held-out vectors."""

    every_steps: int = field(
        0, 'steps between, also at the end of a phase; 0: never', minimum=0
    )
    texts: int = field(512, 'number of held-out texts', minimum=2)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Consecutive steps under one objective."""

    objective: dict = field(
        doc="the objective, as dict(name='mlm')", folder='objectives', given=GIVEN
    )
    steps: int | None = field(None, 'steps of the phase; or give `fraction`', minimum=1)
    fraction: float | None = field(
        None, 'fraction of all steps; the last phase takes the rest', above=0, maximum=1
    )
    data: reads.Changes | None = field(None, 'changes of the section data in this phase')
    rope_theta: float | None = field(
        None, 'rope_theta of the model in this phase', above=0
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shared:
    """All keys of a run except its phases; the runs of a study share them."""

    name: str = field('run', 'name of the run, shown while it trains')
    seed: int = field(0, 'seed of all random choices', minimum=0)
    steps: int = field(
        0, 'steps of the run; or give `tokens`', minimum=0, maximum=ranges.MAX_INT
    )
    tokens: int = field(0, 'tokens that the run reads, including padding', minimum=0)
    baseline: str | dict = field(
        'none', "'flops': train MLM alone with the same FLOPs instead"
    )
    init_from: InitFrom | None = field(None, 'model that the run starts from')
    prepare: reads.Prepare | None = field(
        None, 'makes rows from text if they are missing'
    )
    data: reads.Config = field({}, 'how rows are read and batched')
    model: dict = field(
        {}, 'the encoder, as dict(name=...)', folder='models', given=('vocab_size',)
    )
    optimizer: dict = field(ADAMW, 'the optimizer: adamw, muon or sgd')
    schedule: float | dict = field(
        WSD, 'the learning rate as a function of the step; `peak` is its maximum'
    )
    clip_norm: float = field(
        1.0,
        'maximum global norm of gradients; infinite: no clipping',
        above=0,
        finite=False,
    )
    accumulate: int = field(1, 'microbatches per batch', minimum=1)
    stop_after_skips: int = field(
        10,
        'consecutive non-finite steps after which the run stops, at a line of metrics',
        minimum=1,
    )
    mesh: sharding.Config = field({}, 'how devices share the work (parallelism)')
    log_every_steps: int = field(10, 'steps between lines of metrics', minimum=1)
    telemetry: diagnostics.Config = field({}, 'signs of collapse')
    evaluate: heldout.Config = field({}, 'losses on held-out rows')
    geometry: Geometry = field({}, 'geometry of held-out vectors during training')
    checkpoint: checkpoints.Config = field({}, 'which checkpoints are saved and kept')
    watchdog: watchdogs.Config = field({}, 'stops a run that hangs')
    profile_steps: tuple[int, ...] = field(
        (0, 0), 'first and last step of a trace; (0, 0): none', minimum=0
    )
    plan: hardware.Options = field({}, 'hardware and assumptions of `plan`')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(Shared):
    """The config of a run."""

    phases: tuple[Phase, ...] = field(doc='consecutive phases, each with an objective')

    def __post_init__(self):
        if not self.phases:
            raise ValueError(
                'The config has no phases. Set phases=(dict(objective=...),).'
            )
        if not self.model and self.init_from is None:
            raise ValueError(
                "The config has no model. Set model=dict(name='transformer', ...)."
            )
        if self.prepare and self.data.mixture:
            raise ValueError(
                'config.prepare makes the rows of data.folder, but data.mixture names '
                'several folders. Prepare each of them separately (jepa-text prepare '
                '--workdir=FOLDER), and set --config.prepare=None.'
            )
        if 'name' in self.model:
            resolve.build('models', self.model, vocab_size=1)
        optimizers.make(self.optimizer)
        steps = self.profile_steps or (0, 0)
        if steps != (0, 0) and not (len(steps) == 2 and 1 <= steps[0] <= steps[1]):
            raise ValueError(
                f'profile_steps={steps} must be the first and the last step to record, '
                'such as (10, 12), or (0, 0) for none.'
            )


def changeable_keys(objectives):
    """Returns the patterns of keys that do not affect what a run learns.

    `accumulate` is one of them unless the loss of an objective depends on it.
    """
    depends = any(objective.per_microbatch for objective in objectives)
    return MAY_CHANGE if depends else (*MAY_CHANGE, 'accumulate')


def plain(config):
    """Returns the config of a run as plain dicts with all defaults.

    Raises ValueError for what `Config` rejects and for values that JSON cannot represent.
    """
    config = schema.plain(config)
    if 'runs' in config and 'phases' not in config:
        raise ValueError('The config has `runs`, so it is one for `jepa-text study`.')
    return schema.resolved(Config, config)


def of_runs(config):
    """Returns {name: plain config} of a run, or of each member of a study.

    The config of a member has the shared keys of the study, overridden by those of its
    run, or changed by its sections without a name; a run has one member per seed. Raises
    ValueError, with the name of the run, for what `Config` rejects and for names that
    two runs have.
    """
    config = schema.plain(config)
    if 'runs' not in config:
        config = plain(config)
        return {config['name']: config}
    shared = {key: x for key, x in config.items() if key not in OF_STUDIES}
    members, names = {}, []
    for index, own in enumerate(config['runs']):
        name = own.get('name')
        if not isinstance(name, str):
            raise ValueError(f'runs[{index}]: name={name!r} must be a string.')
        # Some file systems ignore the case of letters.
        if name.casefold() in names:
            raise ValueError(
                f'runs: 2 runs have the name {name!r} (ignoring case). Give each run a '
                'different name.'
            )
        names.append(name.casefold())
        try:
            own = _with_shared_names(own, shared)
            for member in seeded(own, config.get('seeds') or ()):
                members[member['name']] = schema.resolved(Config, {**shared, **member})
        except ValueError as error:
            raise ValueError(f'run {name!r}: {error}') from error
    return members


def _with_shared_names(run, shared):
    """Returns a run of a study; `data`, and sections without a name as dict(peak=1e-3),
    change the shared ones instead of the default. With its own `init_from`, `model`
    changes that."""
    changed = {
        key: schema.merged(shared[key], value)
        for key, value in run.items()
        if ranges.is_section(value)
        and ranges.is_section(shared.get(key))
        and (key == 'data' or ('name' in shared[key] and 'name' not in value))
    }
    if run.get('init_from'):
        changed.pop('model', None)
    return run | changed


def seeded(run, seeds):
    """Returns the members of a run of a study: one per seed, or the run itself.

    Members of seeds are named `NAME/seed_0`. The run's own `seeds` take precedence over
    the given ones.

    >>> [member['name'] for member in seeded({'name': 'mlm'}, (0, 7))]
    ['mlm/seed_0', 'mlm/seed_7']
    """
    own = {key: value for key, value in run.items() if key != 'seeds'}
    seeds = run.get('seeds', seeds)
    if seeds is not None and not isinstance(seeds, list | tuple):
        raise ValueError(f'seeds={seeds!r} must be a list, such as (0, 1, 2).')
    if not seeds:
        return [own]
    if 'seed' in own:
        raise ValueError(f'seed={own["seed"]} and seeds={seeds!r}: set only one of them.')
    for seed in seeds:
        ranges.number('seeds', seed, whole=True, minimum=0)
    if len(set(seeds)) < len(seeds):
        raise ValueError(f'seeds={seeds!r} contains duplicates.')
    seeds = map(int, seeds)
    return [own | {'name': f'{own["name"]}/seed_{seed}', 'seed': seed} for seed in seeds]
