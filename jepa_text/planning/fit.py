"""Checks whether a run fits in device memory, and searches for changes that make it fit.

Every change of the config is evaluated with the estimate of memory.py.
"""

import copy
import dataclasses

from jepa_text.parallel import hardware, sharding
from jepa_text.planning import memory
from jepa_text.training import recipe as recipes
from jepa_text.training.recipe import Recipe

STRONGER = {'none': ('names', 'full'), 'names': ('full',), 'dots': ('full',)}
MAX_DEVICES = 4096
HARDWARE = 'hardware'  # key of a change that is not of the config


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sized:
    """A train `config` on the hardware `name`, such as 'h100:8'.

    A batch is split over `ways` groups of devices and processed in parts, `accumulate` of
    the config. `fused` attention stores no array of row length squared.
    """

    config: dict
    name: str
    vocab_size: int | None
    chip: hardware.Chip
    devices: int
    made: Recipe
    ways: int
    fused: bool

    def rows(self, phase):
        """Rows of a phase per device in one microbatch."""
        return phase.batch_size // self.ways // self.config['accumulate']

    def memories(self):
        """The memory.Memory of each phase."""
        how = dict(microbatches=self.config['accumulate'], fused=self.fused)
        return [memory.estimate(self.made, phase, **how) for phase in self.made.phases]

    def peak_memory(self):
        """Bytes per device of the largest phase."""
        phases = zip(self.made.phases, self.memories())
        return max(needed.total(self.rows(phase)) for phase, needed in phases)


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
        fused=config['model'].get('attention', 'auto') != 'xla',
    )


def remedies(sized):
    """[(flags, bytes per device)]: changes of a Sized that make it fit.

    Returns single changes that keep the training, or a combination if none suffices; then
    a smaller batch that fits.
    """
    config = sized.config
    stronger = STRONGER.get(config['model'].get('remat', 'none'), ())
    remats = [{'model.remat': remat} for remat in stronger]
    shard = _sharding(sized)
    rows = [phase.batch_size // sized.ways for phase in sized.made.phases]
    microbatches = [
        {'accumulate': parts}
        for parts in range(config['accumulate'] + 1, min(rows) + 1)
        if not any(count % parts for count in rows)
    ]
    chip, count = sized.name.partition(':')[0], 2 * sized.devices
    devices = []
    while count <= MAX_DEVICES:
        devices.append({HARDWARE: f'{chip}:{count}'})
        count *= 2
    choices = [microbatches, *([one] for one in remats), [shard], devices]
    remedies = [remedy for choice in choices for remedy in _first(sized, choice)]
    if not remedies:
        saving = shard | (remats[-1] if remats else {})
        remedies = _first(sized, [saving, *(saving | more for more in microbatches)])
    return remedies + [
        (f'{flags} (changes the training)', need)
        for flags, need in _first(sized, _smaller_batches(config['data']))
    ]


def _sharding(sized):
    """Changes that shard the state over all data-parallel devices, if any."""
    is_sharded = sized.made.mesh.shape['fsdp'] == sized.ways
    if is_sharded:
        return {}
    return {'mesh.data': 1, 'mesh.fsdp': sized.ways}


def _smaller_batches(data):
    """Halves the rows again and again."""
    rows = data['batch_size']
    while rows % 2 == 0:
        rows //= 2
        yield {'data.batch_size': rows}


def _first(sized, choices):
    """[(flags, bytes per device)] of the first of several changes that fits, or [].

    A change is {dotted key: value} of the config, or of HARDWARE.
    """
    for changes in filter(None, choices):
        config = copy.deepcopy(sized.config)
        for key, value in changes.items():
            *sections, last = key.split('.')
            target = config
            for section in sections:
                target = target[section]
            target[last] = value
        name = config.pop(HARDWARE, sized.name)
        try:
            changed = size(config, name, sized.vocab_size)
        except ValueError:  # the batch or mesh cannot be split like this
            continue
        need = changed.peak_memory()
        if need <= memory.USABLE * changed.chip.memory:
            prefix = {HARDWARE: '--'}
            named = (f'{prefix.get(k, "--config.")}{k}={v}' for k, v in changes.items())
            return [(' '.join(named), need)]
    return []
