"""Does a run fit into the memory of its devices, and what would make it?

Each change of the config is tried on the estimate of memory.py.
"""

import copy
import dataclasses

from jepa_text.cost import hardware
from jepa_text.parallel import sharding
from jepa_text.planning import memory
from jepa_text.training import assemble
from jepa_text.training.recipe import Recipe

STRONGER = {'none': ('names', 'full'), 'names': ('full',), 'dots': ('full',)}
MAX_DEVICES = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sized:
    """A config on hardware: `microbatches` of rows go over each device, one after the
    other. `fused` attention keeps no array of row length squared."""

    chip: hardware.Chip
    devices: int
    made: Recipe
    ways: int
    microbatches: int
    fused: bool

    def rows(self, phase, microbatches=None):
        """Rows of a phase that go over a device at a time, in this many parts."""
        return phase.batch_size // self.ways // (microbatches or self.microbatches)

    def need(self, microbatches=None):
        """Bytes of a device in the phase that takes most, in this many parts."""
        held = zip(self.made.phases, self.memories(microbatches))
        return max(one.total(self.rows(phase, microbatches)) for phase, one in held)

    def memories(self, microbatches=None):
        """The Memory of each phase, in this many parts."""
        return [
            memory.estimate(
                self.made,
                phase,
                microbatches=microbatches or self.microbatches,
                fused=self.fused,
            )
            for phase in self.made.phases
        ]


def size(config, name, vocab_size=None):
    """The Sized of a train config on hardware such as 'h100:8'.

    Raises ValueError for what cannot work together.
    """
    chip, devices = hardware.find(name)
    mesh = sharding.abstract_mesh(devices, **config['mesh'])
    # Nothing runs here, so no kernel need be able to.
    traced = config | {'model': config['model'] | {'attention': 'xla'}}
    made = assemble.outline(traced, mesh, vocab_size)
    ways, microbatches = mesh.shape['data'] * mesh.shape['fsdp'], config['accumulate']
    for phase in made.phases:
        if phase.batch_size % (ways * microbatches):
            raise ValueError(
                f'{phase.batch_size} rows a step are not a multiple of {ways} (mesh data '
                f'x fsdp) x {microbatches} (accumulate); change one of them, or the '
                f'hardware, which is plan.hardware={name}.'
            )
    return Sized(
        chip=chip,
        devices=devices,
        made=made,
        ways=ways,
        microbatches=microbatches,
        fused=config['model'].get('attention', 'auto') != 'xla',
    )


def remedies(config, name, vocab_size=None):
    """[(flags, bytes)]: changes after which each device of the hardware needs so many
    bytes, and has them. Each alone; together only where none is enough alone."""
    sized = size(config, name, vocab_size)
    held = sized.memories()
    # Where activations alone are too many, no place for the state helps.
    bare = max(
        one.total(sized.rows(phase)) - one.total(0)
        for phase, one in zip(sized.made.phases, held)
    )
    is_state = bare <= memory.USABLE * sized.chip.memory
    singles = [
        *_microbatches(config, sized),
        *_changed(config, name, vocab_size, is_state),
        *_fewer_rows(config, sized, held),
        *_more_devices(config, name, vocab_size),
    ]
    found = [(flags, need) for flags, need, fits in singles if fits]
    return found or _together(config, name, vocab_size)


def _microbatches(config, sized):
    """The batch in more parts: the fewest that fit."""
    room = memory.USABLE * sized.chip.memory
    wholes = [sized.rows(phase, 1) for phase in sized.made.phases]
    for microbatches in range(sized.microbatches + 1, min(wholes) + 1):
        if any(whole % microbatches for whole in wholes):
            continue
        if (need := sized.need(microbatches)) <= room:
            return [(f'--config.accumulate={microbatches}', need, True)]
    return []


def _changed(config, name, vocab_size, is_state):
    """Rematerialization; where it is the state that is too large, slices of it, and
    moments on the host: each by itself."""
    tried = []
    for remat in STRONGER.get(config['model'].get('remat', 'none'), ()):
        tried.append([('model', 'remat', remat)])
    if is_state:
        tried.append(_slices(config, name))
        tried.append([] if config['offload'] else [(None, 'offload', 'optimizer')])
    return [_try(config, changes, name, vocab_size) for changes in tried if changes]


def _slices(config, name):
    """The state in slices over all devices that only share the batch now."""
    mesh, (_, devices) = config['mesh'], hardware.find(name)
    others = mesh.get('tensor', 1) * mesh.get('context', 1)
    fsdp = devices // others if others > 0 else 1
    if mesh.get('fsdp', 1) in (-1, fsdp) or mesh.get('dcn_data', 1) > 1:
        return []
    return [('mesh', 'data', 1), ('mesh', 'fsdp', fsdp)]


def _fewer_rows(config, sized, held):
    maximum = min(one.max_rows(sized.chip.memory) for one in held)
    # Where phases have batches of their own, one number does not change all of them.
    if not maximum or len({phase.batch_size for phase in sized.made.phases}) > 1:
        return []
    key, rows = 'batch_per_device', maximum * sized.microbatches
    if not config['data'].get(key):
        key, rows = 'batch_size', maximum * sized.microbatches * sized.ways
    need = max(one.total(maximum) for one in held)
    return [(f'--config.data.{key}={rows} (another run)', need, True)]


def _more_devices(config, name, vocab_size):
    chip, _, count = name.partition(':')
    count = 2 * int(count or 1)
    while count <= MAX_DEVICES:
        try:
            flag, need, fits = _try(config, [], f'{chip}:{count}', vocab_size)
        except ValueError:  # the batch or the mesh does not go over so many
            return []
        if fits:
            return [(flag, need, True)]
        count *= 2
    return []


def _together(config, name, vocab_size):
    """All that save memory at once, and then as many parts as it takes."""
    changes = [*_slices(config, name), (None, 'offload', 'optimizer')]
    if 'full' in STRONGER.get(config['model'].get('remat', 'none'), ()):
        changes.append(('model', 'remat', 'full'))
    flags, need, fits = _try(config, changes, name, vocab_size)
    if fits:
        return [(flags, need)]
    less = _with(config, changes)
    found = _microbatches(less, size(less, name, vocab_size))
    return [(f'{flags} {more}', need) for more, need, _ in found]


def _try(config, changes, name, vocab_size):
    """(flags, bytes of a device, does it fit) of the config with the changes."""
    sized = size(_with(config, changes), name, vocab_size)
    need = sized.need()
    flags = [f'--config.{".".join(filter(None, (s, k)))}={v}' for s, k, v in changes]
    fits = need <= memory.USABLE * sized.chip.memory
    return ' '.join(flags or [f'--hardware={name}']), need, fits


def _with(config, changes):
    changed = copy.deepcopy(config)
    for section, key, value in changes:
        (changed[section] if section else changed)[key] = value
    return changed
