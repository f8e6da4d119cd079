"""What a run will take, before it: parameters, arithmetic, memory, hours, money.

    jepa-text plan --config=configs/toy.py:mlm --hardware=h100:8

Needs no rows and no accelerator. Arithmetic is counted in the program (cost/flops.py),
memory by the formula of memory.py. Speed is a share of the chips' peak that is assumed:
measure it (`throughput/mfu`), then say so with `--mfu`.
"""

import dataclasses

import jax

from jepa_text.config import resolve, schema
from jepa_text.cost import hardware
from jepa_text.models.network import Network
from jepa_text.planning import aot, fit, memory, roofline, tables
from jepa_text.training import completion
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes

# What a phase without MLM is compared with.
MLM = {'name': 'mlm'}


def plan(config, workdir=None):
    """Prints the plan of a train config, or of each run of a study, and returns
    {run: Plan}. The section `plan` of the config holds the keywords of
    hardware.Options.

    Raises ValueError for what cannot work together.
    """
    plans = {}
    for name, one in settings.of_runs(_unseeded(config)).items():
        options = schema.read(hardware.Options, one['plan'], 'plan')
        plans[name] = made = make(completion.completed(one), options)
        tables.show(name, made)
    return plans


def _unseeded(config):
    """A study with each of its runs once, whatever seeds they have."""
    config = schema.plain(config)
    if 'runs' not in config:
        return config
    runs = [{k: v for k, v in run.items() if k != 'seeds'} for run in config['runs']]
    return config | {'runs': runs, 'seeds': ()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """What one phase takes. Rows of `length` make a batch of `rows`, of which
    `rows_at_once` go over a device. `parameters` are {part: how many}; `flops`, {part:
    FLOPs of a step}; `factor`, the step against plain MLM on the same rows; `computed`,
    the FLOPs that the program holds for one that counts; `compiled`, what the compiler
    made of the step, if it was asked."""

    name: str
    steps: int
    rows: int
    length: int
    rows_at_once: int
    parameters: dict
    flops: dict
    factor: float
    computed: float
    memory: memory.Memory
    compiled: aot.Compiled | None

    @property
    def tokens(self):
        """Places in the rows of a step, padding too."""
        return self.rows * self.length


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Each batch goes over the devices in `microbatches`. `would_fit`, if it does not:
    (flags, bytes of a device with them)."""

    options: hardware.Options
    chip: hardware.Chip
    devices: int
    microbatches: int
    phases: tuple
    dtype: str
    fused: bool
    would_fit: tuple = ()

    def fits(self, chip):
        """Is there room for every phase on this chip, as estimated, and as compiled?"""
        return self.needed <= memory.USABLE * chip.memory

    @property
    def needed(self):
        """Bytes of a device in the phase that takes most; as compiled, if it was."""
        return max(
            phase.memory.total(phase.rows_at_once)
            if phase.compiled is None
            else phase.compiled.peak
            for phase in self.phases
        )

    def roofline(self, phase):
        """The roofline.Roofline of a phase that was compiled."""
        flops = sum(phase.flops.values()) / self.devices
        return roofline.of(phase.compiled.kernels, self.chip, flops)

    @property
    def mfu(self):
        """The share of the peak to plan with: given, by the bound of the compiled steps,
        or that of the chip."""
        if self.options.mfu is not None:
            return self.options.mfu
        if self.bound:
            return hardware.REACHED * self.bound
        return self.chip.share(self.dtype)

    @property
    def bound(self):
        """The MFU that the phase with the lowest can reach; None without kernels."""
        known = [one for one in self.phases if one.compiled and one.compiled.kernels]
        return min((self.roofline(phase).mfu for phase in known), default=None)

    @property
    def price(self):
        return self.chip.price if self.options.price is None else self.options.price

    def seconds(self, chip, mfu):
        """Of the whole run, on as many of a chip."""
        return sum(p.steps * self.step_seconds(p, chip, mfu) for p in self.phases)

    def step_seconds(self, phase, chip, mfu):
        """Of one step: its arithmetic, but at least the reading and writing of the state,
        which is what small models wait for."""
        arithmetic = sum(phase.flops.values()) / (self.devices * chip.peak * mfu)
        return max(arithmetic, 2 * sum(phase.memory.state.values()) / chip.bandwidth)

    @property
    def tokens(self):
        """Places in rows that the run reads, padding too."""
        return sum(phase.steps * phase.tokens for phase in self.phases)


def make(config, options):
    """The Plan of a train config as plain dicts."""
    sized = fit.size(config, options.hardware, options.vocab_size)
    made = sized.made
    compiled = [None] * len(made.phases)
    if options.compile:
        compiled = aot.compile_phases(config, options.hardware, options.vocab_size)
    held = sized.memories()
    counts = [recipes.cost(made, phase) for phase in made.phases]
    planned = Plan(
        options=options,
        chip=sized.chip,
        devices=sized.devices,
        microbatches=sized.microbatches,
        dtype=made.phases[0].network.encoder.dtype,
        fused=sized.fused,
        phases=tuple(
            Phase(
                name=phase.name,
                steps=phase.steps,
                rows=phase.batch_size,
                length=phase.length,
                rows_at_once=sized.rows(phase),
                parameters=parameters(recipes.shapes(made, phase).params),
                flops=count.parts,
                factor=count.model / plain(made, phase),
                computed=count.held / count.model,
                memory=takes,
                compiled=made_of,
            )
            for phase, count, takes, made_of in zip(made.phases, counts, held, compiled)
        ),
    )
    if planned.fits(planned.chip):
        return planned
    would = fit.remedies(config, options.hardware, options.vocab_size)
    return dataclasses.replace(planned, would_fit=tuple(would))


def parameters(params):
    """{part: how many}: the embedding, the encoder without it, and what is on top."""
    counts = {
        name: sum(leaf.size for leaf in jax.tree.leaves(tree))
        for name, tree in params.items()
    }
    embedding = params['encoder']['embedding'].size
    counts = {'embedding': embedding, **counts}
    counts['encoder'] -= embedding
    return {name: count for name, count in counts.items() if count}


def plain(made, phase):
    """FLOPs of an MLM step on the same rows: of the objective's own MLM part, or with the
    rate that MLM has by default."""
    token = phase.objective.token_objective
    own = phase.objective.baseline(phase.section['objective'])
    objective = resolve.build(
        'objectives',
        own or {**MLM, 'tied': bool(token and token.tied)},
        tokenizer=made.tokenizer,
        length=phase.length,
        steps=phase.stop - phase.start,
    )
    if phase.name == 'mlm':
        objective = phase.objective
    network = Network(phase.network.encoder, objective)
    alone = dataclasses.replace(phase, objective=objective, network=network)
    return recipes.cost(made, alone).model
