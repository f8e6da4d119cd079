"""Estimates a run before it starts: parameters, FLOPs, memory, time and cost.

    jepa-text plan pretrain:mlm,size=210m --hardware=h100:8

Needs neither data nor an accelerator. FLOPs are counted in the traced program
(models/flops.py); memory is estimated by memory.py. Speed is an assumed fraction of the
chips' peak (MFU): measure it (`throughput/mfu`) and pass it with `--mfu`.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax

from jepa_text.models import flops
from jepa_text.models.attention import attend
from jepa_text.parallel import hardware, sharding
from jepa_text.planning import aot, memory, roofline, tables
from jepa_text.settings import schema
from jepa_text.training import completion, descriptions, preflight
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes

# Seconds of a step below which launching its kernels takes longer than they do.
SHORTEST = 1e-3


def plan(config, workdir=None):
    """Prints the plan of a train config, or of each run of a study, and returns
    {run: Plan}. The config section `plan` has the fields of hardware.Options.

    Raises ValueError for settings that are incompatible.
    """
    plans = {}
    for name, run in settings.of_runs(_unseeded(config)).items():
        run = completion.with_baseline(completion.with_init_from(run), mesh(run))
        preflight.batch_size(outline(run))
        plans[name] = make(run)
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
    memory         estimated memory per device
    memory_on      chip -> the same on another chip, where attention has other backends
    fused          whether attention stores no array of row length squared
    compiled       the compiled step; None unless compilation was requested
    """

    name: str
    steps: int
    rows: int
    length: int
    rows_at_once: int
    parameters: dict
    count: flops.Count
    memory: memory.Memory
    memory_on: Callable
    fused: bool
    compiled: aot.Compiled | None

    @property
    def tokens(self):
        """Token positions per step, including padding."""
        return self.rows * self.length


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a run on a number of devices of a chip."""

    options: hardware.Options
    chip: hardware.Chip
    devices: int
    phases: tuple
    dtype: str

    def fits(self, chip):
        """Whether every phase fits in the memory of this chip."""
        needed = self.peak_memory
        if chip != self.chip:
            needed = max(p.memory_on(chip).total(p.rows_at_once) for p in self.phases)
        return needed <= memory.USABLE * chip.memory

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
        given = self.options.dollars_per_chip_hour
        return self.chip.price if given is None else given

    def seconds(self, chip, mfu):
        """Seconds of the whole run on the same number of devices of another chip."""
        return sum(p.steps * self.step_seconds(p, chip, mfu) for p in self.phases)

    def step_seconds(self, phase, chip, mfu):
        """Seconds per step: FLOPs at the given MFU, but at least the time to read and
        write the training state, which dominates for small models."""
        arithmetic = phase.count.model / (self.devices * chip.peak * mfu)
        return max(arithmetic, 2 * sum(phase.memory.state.values()) / chip.bandwidth)

    def is_known(self, chip, mfu):
        """Whether steps take long enough to plan: shorter ones wait for the host."""
        return all(self.step_seconds(p, chip, mfu) >= SHORTEST for p in self.phases)

    @property
    def tokens(self):
        """Token positions of the whole run, including padding."""
        return sum(phase.steps * phase.tokens for phase in self.phases)


def options_of(config):
    """The section `plan` of a train config, given as plain dicts."""
    return schema.read(hardware.Options, config['plan'], 'plan')


def outline(config):
    """The Recipe of a train config on the hardware of its section `plan`.

    Raises ValueError for settings that are incompatible.
    """
    return recipes.outline(config, mesh(config), options_of(config).vocab_size)


def mesh(config):
    """The mesh of a train config on that hardware."""
    _, devices = hardware.find(options_of(config).target)
    return sharding.abstract_mesh(devices, **config['mesh'])


def make(config):
    """The Plan of a train config given as plain dicts."""
    options, microbatches = options_of(config), config['accumulate']
    recipe = outline(config)
    chip, devices = hardware.find(options.target)
    compiled = [None] * len(recipe.phases)
    if options.compile:
        compiled = aot.compile_phases(config, options.target, options.vocab_size)
    phases = [
        _phase(recipe, phase, chip, microbatches, program)
        for phase, program in zip(recipe.phases, compiled)
    ]
    return Plan(
        options=options,
        chip=chip,
        devices=devices,
        dtype=recipe.phases[0].network.encoder.dtype,
        phases=tuple(phases),
    )


def _phase(recipe, phase, chip, microbatches, program):
    """The Phase of a phase of a recipe, on a chip."""
    requests = descriptions.requests(recipe, phase)
    is_fused = functools.partial(_is_fused, phase, requests, microbatches)

    @functools.cache
    def estimate(fused):
        return memory.estimate(recipe, phase, microbatches=microbatches, fused=fused)

    fused, parts = is_fused(chip), microbatches * sharding.ways(recipe.mesh)
    return Phase(
        name=phase.name,
        steps=phase.steps,
        rows=phase.batch_size,
        length=phase.length,
        rows_at_once=max(1, phase.batch_size // parts),
        parameters=parameters(recipe.shapes(phase).params),
        count=recipe.cost(phase),
        memory=estimate(fused),
        memory_on=lambda other: estimate(is_fused(other)),
        fused=fused,
        compiled=program,
    )


def _is_fused(phase, requests, microbatches, chip):
    """Whether attention stores no array of row length squared, by the backend for the
    requests of a phase on a chip, as far as this machine can tell."""
    named = phase.network.encoder.attention
    if named != 'auto':
        return named != 'xla'
    there = dict(platform=chip.platform, capability=chip.capability or (0, 0))
    asked = [
        dataclasses.replace(request, batch=request.batch // microbatches, **there)
        for request in requests
    ]
    return 'xla' not in [attend.choose(named, request) for request in asked]


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
