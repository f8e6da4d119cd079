"""Estimates a run before it starts: parameters, FLOPs, memory, time and cost.

    jepa-text plan --config=configs/toy.py:mlm --hardware=h100:8

Needs neither data nor an accelerator. FLOPs are counted in the traced program
(models/flops.py); memory is estimated by memory.py. Speed is an assumed fraction of the
chips' peak (MFU): measure it (`throughput/mfu`) and pass it with `--mfu`.
"""

import dataclasses

import jax

from jepa_text.config import resolve, schema
from jepa_text.models import flops
from jepa_text.models.network import Network
from jepa_text.parallel import hardware, sharding
from jepa_text.planning import aot, fit, memory, roofline, tables
from jepa_text.training import completion
from jepa_text.training import config as settings


def plan(config, workdir=None):
    """Prints the plan of a train config, or of each run of a study, and returns
    {run: Plan}. The config section `plan` has the fields of hardware.Options.

    Raises ValueError for settings that are incompatible.
    """
    plans = {}
    for name, run in settings.of_runs(_unseeded(config)).items():
        options = schema.read(hardware.Options, run['plan'], 'plan')
        _, devices = hardware.find(options.target)
        mesh = sharding.abstract_mesh(devices, **run['mesh'])
        plans[name] = make(completion.as_planned(run, mesh), options)
        tables.show(name, plans[name])
    return plans


def _unseeded(config):
    """The config of a study with each run once, without its seeds."""
    config = schema.plain(config)
    if 'runs' not in config:
        return config
    runs = [{k: v for k, v in run.items() if k != 'seeds'} for run in config['runs']]
    return config | {'runs': runs, 'seeds': ()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Estimated requirements of one phase.

    name           the objective of the phase
    steps          number of optimizer steps
    rows           rows per batch, over all devices
    length         tokens per row
    rows_at_once   rows per device in one microbatch
    parameters     {part: number of parameters}
    count          flops.Count of a step
    factor         FLOPs of a step relative to plain MLM on the same rows
    memory         estimated memory per device
    compiled       the compiled step; None unless compilation was requested
    """

    name: str
    steps: int
    rows: int
    length: int
    rows_at_once: int
    parameters: dict
    count: flops.Count
    factor: float
    memory: memory.Memory
    compiled: aot.Compiled | None

    @property
    def tokens(self):
        """Token positions per step, including padding."""
        return self.rows * self.length


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a run. If it does not fit, `remedies` lists changes that make it fit:
    (flags, bytes per device)."""

    options: hardware.Options
    chip: hardware.Chip
    devices: int
    phases: tuple
    dtype: str
    fused: bool
    remedies: tuple = ()

    def fits(self, chip):
        """Whether every phase fits in the memory of this chip."""
        return self.peak_memory <= memory.USABLE * chip.memory

    @property
    def peak_memory(self):
        """Bytes per device of the largest phase: as compiled if available, otherwise as
        estimated."""
        return max(
            phase.memory.total(phase.rows_at_once)
            if phase.compiled is None
            else phase.compiled.peak
            for phase in self.phases
        )

    def roofline(self, phase):
        """The roofline.Roofline of a compiled phase; None without its traffic."""
        traffic = phase.compiled and phase.compiled.traffic
        if not traffic:
            return None
        return roofline.of(traffic, phase.count, self.chip, self.devices, self.dtype)

    @property
    def mfu(self):
        """The planned MFU: from the options, else from the bound of the compiled steps,
        else the chip's default."""
        if self.options.mfu is not None:
            return self.options.mfu
        if self.bound:
            return hardware.REACHED * self.bound
        return self.chip.share(self.dtype)

    @property
    def bound(self):
        """The lowest roofline MFU of all compiled phases; None without any."""
        bounds = filter(None, map(self.roofline, self.phases))
        return min((bound.mfu for bound in bounds), default=None)

    @property
    def price(self):
        """US dollars per chip and hour, or None if unknown."""
        return self.chip.price if self.options.price is None else self.options.price

    def seconds(self, chip, mfu):
        """Seconds of the whole run on the same number of devices of another chip."""
        return sum(p.steps * self.step_seconds(p, chip, mfu) for p in self.phases)

    def step_seconds(self, phase, chip, mfu):
        """Seconds per step: FLOPs at the given MFU, but at least the time to read and
        write the training state, which dominates for small models."""
        arithmetic = phase.count.model / (self.devices * chip.peak * mfu)
        return max(arithmetic, 2 * sum(phase.memory.state.values()) / chip.bandwidth)

    @property
    def tokens(self):
        """Token positions of the whole run, including padding."""
        return sum(phase.steps * phase.tokens for phase in self.phases)


def make(config, options):
    """The Plan of a train config given as plain dicts."""
    sized = fit.size(config, options.target, options.vocab_size)
    made = sized.made
    compiled = [None] * len(made.phases)
    if options.compile:
        compiled = aot.compile_phases(config, options.target, options.vocab_size)
    phases = []
    for phase, estimate, program in zip(made.phases, sized.memories(), compiled):
        count = made.cost(phase)
        phases.append(
            Phase(
                name=phase.name,
                steps=phase.steps,
                rows=phase.batch_size,
                length=phase.length,
                rows_at_once=sized.rows(phase),
                parameters=parameters(made.shapes(phase).params),
                count=count,
                factor=count.model / mlm_flops(made, phase),
                memory=estimate,
                compiled=program,
            )
        )
    planned = Plan(
        options=options,
        chip=sized.chip,
        devices=sized.devices,
        dtype=made.phases[0].network.encoder.dtype,
        fused=sized.fused,
        phases=tuple(phases),
    )
    if planned.fits(planned.chip):
        return planned
    return dataclasses.replace(planned, remedies=tuple(fit.remedies(sized)))


def parameters(params):
    """{part: number of parameters}: the embedding, the rest of the encoder, the heads."""
    counts = {
        name: sum(leaf.size for leaf in jax.tree.leaves(tree))
        for name, tree in params.items()
    }
    embedding = params['encoder']['embedding'].size
    counts = {'embedding': embedding, **counts}
    counts['encoder'] -= embedding
    return {name: count for name, count in counts.items() if count}


def mlm_flops(made, phase):
    """FLOPs of an MLM step on the same rows: with the MLM part of the phase's objective
    if it has one, otherwise with MLM's default masking rate."""
    if phase.name == 'mlm':
        return made.cost(phase).model
    token = phase.objective.token_objective
    own = phase.objective.baseline(phase.section['objective'])
    objective = resolve.build(
        'objectives',
        own or {'name': 'mlm', 'tied': bool(token and token.tied)},
        tokenizer=made.tokenizer,
        length=phase.length,
        steps=phase.stop - phase.start,
    )
    network = Network(phase.network.encoder, objective)
    alone = dataclasses.replace(phase, objective=objective, network=network)
    return made.cost(alone).model
