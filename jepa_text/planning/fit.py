"""Checks whether a run fits in device memory, and searches for changes that make it fit.

Every change of the config is evaluated with the estimate of memory.py.
"""

import copy
import dataclasses
import math

from jepa_text.cost import hardware
from jepa_text.parallel import sharding
from jepa_text.planning import memory
from jepa_text.training import recipe as recipes
from jepa_text.training.recipe import Recipe

STRONGER = {'none': ('names', 'full'), 'names': ('full',), 'dots': ('full',)}
MAX_DEVICES = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sized:
    """A train `config` on the hardware `name`, such as 'h100:8'.

    A batch is split over `ways` groups of devices and processed in `microbatches` parts.
    `fused` attention stores no array of row length squared.
    """

    config: dict
    name: str
    vocab_size: int | None
    chip: hardware.Chip
    devices: int
    made: Recipe
    ways: int
    microbatches: int
    fused: bool

    @property
    def usable(self):
        """Usable bytes per device."""
        return memory.USABLE * self.chip.memory

    def rows(self, phase, microbatches=None):
        """Rows of a phase per device in one microbatch."""
        return phase.batch_size // self.ways // (microbatches or self.microbatches)

    def peak_memory(self, microbatches=None):
        """Bytes per device of the largest phase."""
        estimates = zip(self.made.phases, self.memories(microbatches))
        return max(one.total(self.rows(phase, microbatches)) for phase, one in estimates)

    def memories(self, microbatches=None):
        """The memory.Memory of each phase."""
        return [
            memory.estimate(
                self.made,
                phase,
                microbatches=microbatches or self.microbatches,
                fused=self.fused,
            )
            for phase in self.made.phases
        ]

    def changed(self, changes):
        """The Sized after changes {dotted key: value} of the config."""
        return size(_with(self.config, changes), self.name, self.vocab_size)


def size(config, name, vocab_size=None):
    """The Sized of a train config on hardware such as 'h100:8'.

    Raises ValueError for settings that are incompatible.
    """
    chip, devices = hardware.find(name)
    mesh = sharding.abstract_mesh(devices, **config['mesh'])
    # The step is only traced, so the attention kernel need not be available.
    traced = config | {'model': config['model'] | {'attention': 'xla'}}
    made = recipes.outline(traced, mesh, vocab_size)
    ways, microbatches = mesh.shape['data'] * mesh.shape['fsdp'], config['accumulate']
    for phase in made.phases:
        if phase.batch_size % (ways * microbatches):
            raise ValueError(
                f'{phase.batch_size} rows per step are not a multiple of {ways} (mesh '
                f'data x fsdp) x {microbatches} (accumulate); change one of them, or '
                f'plan.hardware={name}.'
            )
    return Sized(
        config=config,
        name=name,
        vocab_size=vocab_size,
        chip=chip,
        devices=devices,
        made=made,
        ways=ways,
        microbatches=microbatches,
        fused=config['model'].get('attention', 'auto') != 'xla',
    )


def remedies(sized):
    """[(flags, bytes per device)]: changes of a Sized that make it fit.

    Returns single changes that keep the training, or a combination if none suffices; then
    the largest batch that fits.
    """
    estimates = sized.memories()
    # If the activations alone do not fit, moving or sharding the state does not help.
    largest = max(
        one.total(sized.rows(phase)) - one.total(0)
        for phase, one in zip(sized.made.phases, estimates)
    )
    single = [
        *_microbatches(sized),
        *_changed(sized, is_state=largest <= sized.usable),
        *_more_devices(sized),
    ]
    return (single or _combined(sized)) + _fewer_rows(sized, estimates)


def _microbatches(sized):
    """The smallest number of microbatches that fits."""
    rows = [sized.rows(phase, 1) for phase in sized.made.phases]
    for microbatches in range(sized.microbatches + 1, min(rows) + 1):
        if any(count % microbatches for count in rows):
            continue
        if (need := sized.peak_memory(microbatches)) <= sized.usable:
            return [(f'--config.accumulate={microbatches}', need)]
    return []


def _changed(sized, is_state):
    """Single changes: more rematerialization; if the state is too large, sharding it and
    offloading the optimizer state to the host."""
    tried = [{'model.remat': remat} for remat in _stronger(sized)]
    if is_state:
        tried.append(_sharded(sized))
        tried.append({} if sized.config['offload'] else {'offload': 'optimizer'})
    return [remedy for changes in filter(None, tried) for remedy in _try(sized, changes)]


def _stronger(sized):
    """The kinds of rematerialization that store less than the configured one."""
    return STRONGER.get(sized.config['model'].get('remat', 'none'), ())


def _sharded(sized):
    """Changes that shard the state over all data-parallel devices, if any."""
    is_split = sized.made.mesh.shape['fsdp'] == sized.ways
    if is_split or sized.config['mesh'].get('dcn_data', 1) > 1:
        return {}
    return {'mesh.data': 1, 'mesh.fsdp': sized.ways}


def _fewer_rows(sized, estimates):
    """The largest batch that fits."""
    maximum = min(one.max_rows(sized.chip.memory) for one in estimates)
    # If phases have different batch sizes, one flag does not change all of them.
    if not maximum or len({phase.batch_size for phase in sized.made.phases}) > 1:
        return []
    if not sized.config['data'].get('batch_per_device'):
        rows = maximum * sized.microbatches * sized.ways
        need = max(one.total(maximum) for one in estimates)
        return [(f'--config.data.batch_size={rows} (changes the training)', need)]
    # Devices that split heads or positions share their rows: the rows of all of them must
    # fit, and be divisible by the microbatches.
    sharing = sized.devices // sized.ways
    step = sized.microbatches // math.gcd(sized.microbatches, sharing)
    rows = maximum * sized.microbatches // sharing // step * step
    if not rows:
        return []
    need = max(one.total(rows * sharing // sized.microbatches) for one in estimates)
    return [(f'--config.data.batch_per_device={rows} (changes the training)', need)]


def _more_devices(sized):
    """The smallest larger number of devices that fits, by doubling."""
    chip, count = sized.name.partition(':')[0], 2 * sized.devices
    while count <= MAX_DEVICES:
        try:
            larger = size(sized.config, f'{chip}:{count}', sized.vocab_size)
        except ValueError:  # the batch or mesh cannot be split over this many devices
            return []
        if (need := larger.peak_memory()) <= larger.usable:
            return [(f'--hardware={larger.name}', need)]
        count *= 2
    return []


def _combined(sized):
    """All memory-saving changes together, with more microbatches if needed."""
    changes = _sharded(sized) | {'offload': 'optimizer'}
    if 'full' in _stronger(sized):
        changes['model.remat'] = 'full'
    if found := _try(sized, changes):
        return found
    found = _microbatches(sized.changed(changes))
    return [(f'{_flags(changes)} {more}', need) for more, need in found]


def _try(sized, changes):
    """[(flags, bytes per device)] of changes {dotted key: value} that fit, or []."""
    need = sized.changed(changes).peak_memory()
    return [(_flags(changes), need)] if need <= sized.usable else []


def _flags(changes):
    return ' '.join(f'--config.{key}={value}' for key, value in changes.items())


def _with(config, changes):
    """A copy of the config with the changes {dotted key: value}."""
    changed = copy.deepcopy(config)
    for key, value in changes.items():
        *sections, last = key.split('.')
        target = changed
        for section in sections:
            target = target[section]
        target[last] = value
    return changed
