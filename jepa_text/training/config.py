"""The whole config of a training run: every section, key and default, as one tree.

    schema.read(Config, config)      -> Config, with the defaults of what is left out
    plain(config)                    -> the same as plain dicts, as config.json has it

Sections are declared beside what uses them. Those of `dict` name a file, or a function,
and are checked by its keywords when it is called.
"""

import dataclasses

from jepa_text.config import ranges, resolve, schema
from jepa_text.config.schema import field, section
from jepa_text.cost import hardware
from jepa_text.data import prepare as prepared
from jepa_text.data import section as reads
from jepa_text.objectives.latent import diagnostics
from jepa_text.optim import optimizers
from jepa_text.parallel import sharding
from jepa_text.running import checkpoint as checkpoints
from jepa_text.running import compilation, writers
from jepa_text.running import watchdog as watchdogs
from jepa_text.training.evals import geometry as shapes
from jepa_text.training.evals import heldout
from jepa_text.training.init_from import InitFrom

GIVEN = ('tokenizer', 'length', 'steps')  # to an objective, by the program
OF_A_STUDY = (
    'The config has runs, so it is that of a study: `jepa-text study`. One run has '
    'phases instead, as configs/toy.py.'
)
# What a study has beside what its runs share.
OF_STUDIES = ('runs', 'seeds', 'attempts', 'lease', 'study', 'examine', 'report')
ADAMW = {'name': 'adamw'}
WSD = {'name': 'wsd', 'peak': 5e-4, 'warmup': 0.05, 'decay': 0.2}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AtSwitch:
    """What a phase does to the state of the phase before."""

    reset: str | None = field(None, 'a pattern of the parameters that start afresh')
    rewarm: float = field(0, 'steps of a new warm-up, or their share', minimum=0)

    def __post_init__(self):
        if self.reset is not None:
            ranges.pattern('at_switch.reset', self.reset)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Steps under one objective."""

    objective: dict = field(
        doc="what is learned, as dict(name='mlm')", folder='objectives', given=GIVEN
    )
    steps: int | None = field(None, 'of the phase; or', minimum=1)
    share: float | None = field(
        None, 'of all steps; the last phase takes the rest', above=0, maximum=1
    )
    at_switch: AtSwitch | None = field(None, 'what changes where the phase begins')
    data: reads.Changes | None = field(None, 'what it reads otherwise')
    rope_theta: float | None = field(None, 'of the model in this phase', above=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shared:
    """What a run is set to, but for its phases: what the runs of a study share."""

    name: str = field('run', 'shown while it trains')
    seed: int = field(0, 'of all random choices', minimum=0)
    steps: int = field(0, 'of the run; or', minimum=0, maximum=ranges.MAX_INT)
    tokens: int = field(0, 'positions in rows that it reads', minimum=0)
    baseline: str | dict = field(
        'none', "'flops' or 'time': MLM alone with as much of it as the run has"
    )
    init_from: InitFrom | None = field(None, 'what the run begins with')
    prepare: prepared.Config | None = field(None, 'text to rows, where they are missing')
    data: reads.Config = section(reads.Config, 'rows to batches')
    model: dict = field(
        {}, 'the encoder, as dict(name=...)', folder='models', given=('vocab_size',)
    )
    optimizer: dict = field(ADAMW, 'adamw, muon or sgd')
    schedule: float | dict = field(WSD, 'the learning rate, by step')
    clip_norm: float = field(
        1.0, 'of gradients; infinite: never clipped', above=0, finite=False
    )
    accumulate: int = field(1, 'microbatches that a batch is computed in', minimum=1)
    stop_after_skips: int = field(10, 'steps in a row that are not finite', minimum=1)
    mesh: sharding.Config = section(sharding.Config, 'how devices share the work')
    offload: str = field(
        '', "'optimizer': its state lies on the host", choices=('', 'optimizer')
    )
    log_every: int = field(10, 'steps from one line of metrics to the next', minimum=1)
    metrics: writers.Config = section(writers.Config, 'where else they are told')
    telemetry: diagnostics.Config = section(diagnostics.Config, 'signs of collapse')
    evaluate: heldout.Config = section(heldout.Config, 'losses on held-out rows')
    geometry: shapes.Config = section(shapes.Config, 'held-out vectors as they form')
    checkpoint: checkpoints.Config = section(
        checkpoints.Config, 'what is kept of the run'
    )
    watchdog: watchdogs.Config = section(watchdogs.Config, 'ends a run that hangs')
    profile_steps: tuple[int, ...] = field(
        (0, 0), 'first and last step of a trace; (0, 0): none', minimum=0
    )
    compilation_cache: str = compilation.choice()
    plan: hardware.Options = section(hardware.Options, 'what `plan` reckons with')
    extended: tuple | None = field(None, 'written by a run that got more steps')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(Shared):
    """The config of a run."""

    phases: tuple[Phase, ...] = field(doc='objectives, one after the other')

    def __post_init__(self):
        if not self.phases:
            raise ValueError('The config has no phases, as (dict(objective=...),).')
        if not self.model and self.init_from is None:
            raise ValueError("The config has no model, as dict(name='transformer', ...).")
        if self.prepare and self.data.mixture:
            raise ValueError(
                'config.prepare makes the rows of data.folder, but data.mixture names '
                'several: prepare each by itself (jepa-text prepare --workdir=FOLDER), '
                'and leave prepare out, as --config.prepare=None.'
            )
        if 'name' in self.model:
            resolve.build('models', self.model, vocab_size=1)
        optimizers.make(self.optimizer)


def plain(config):
    """The config of a run as plain dicts, whatever it came as, with all defaults.

    Raises ValueError for what `Config` refuses, and what JSON cannot hold.
    """
    config = schema.plain(config)
    if 'runs' in config and 'phases' not in config:
        raise ValueError(OF_A_STUDY)
    return schema.resolved(Config, config)


def of_runs(config):
    """{name: config, as `plain`} of a run, or of each member of a study: the shared keys,
    overridden by the run's own, once for each of its seeds.

    Raises ValueError, with the name of the run, for what `Config` refuses.
    """
    config = schema.plain(config)
    if 'runs' not in config:
        config = plain(config)
        return {config['name']: config}
    shared = {key: x for key, x in config.items() if key not in OF_STUDIES}
    found = {}
    for index, own in enumerate(config['runs']):
        name = own.get('name')
        if not isinstance(name, str):
            raise ValueError(f'runs[{index}]: name={name!r} must be a text.')
        try:
            for member in seeded(own, config.get('seeds') or ()):
                found[member['name']] = schema.resolved(Config, {**shared, **member})
        except ValueError as error:
            raise ValueError(f'run {name!r}: {error}') from error
    return found


def seeded(run, seeds):
    """The members of a run of a study: itself, or one for each seed, `NAME/seed_0`; its
    own `seeds` count more than those given.

    >>> [member['name'] for member in seeded({'name': 'mlm'}, (0, 7))]
    ['mlm/seed_0', 'mlm/seed_7']
    """
    own = {key: value for key, value in run.items() if key != 'seeds'}
    seeds = run.get('seeds', seeds)
    if not seeds:
        return [own]
    if 'seed' in own:
        raise ValueError(f'seed={own["seed"]} and seeds={seeds!r}: give one of them.')
    for seed in seeds:
        ranges.number('seeds', seed, whole=True, minimum=0)
    if len(set(seeds)) < len(seeds):
        raise ValueError(f'seeds={seeds!r}: give each once.')
    return [own | {'name': f'{own["name"]}/seed_{seed}', 'seed': seed} for seed in seeds]
