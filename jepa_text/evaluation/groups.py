"""Groups of members that are trained together, and their matching with finished results:
by weights, data and settings, not by folder names."""

import dataclasses
import functools
import itertools
import re
from pathlib import Path

import jax

from jepa_text.evaluation import controls, examiner, identity, zero_shot
from jepa_text.evaluation.controls import baselines
from jepa_text.evaluation.members import grid
from jepa_text.files import checksums
from jepa_text.settings import schema


@dataclasses.dataclass(frozen=True)
class Group:
    """Members of one model and task that are trained together.

    common     identifies what all members of the model and task share
    control    '' for models, 'untrained', or examiner.CONTROLS, which has no members
    controls   the names of these controls
    """

    common: str
    path: str
    model: str
    task: str
    control: str
    members: tuple
    controls: tuple = ()

    @property
    def item(self):
        """The name of the group; no two of `unique` groups share their first member."""
        name = f'{self.common}={_as_file(Path(self.path).name)[:60]}'
        return '='.join([name, *(f'{one[0]:g}-{one[1]}' for one in self.members[:1])])

    @functools.cached_property
    def keys(self):
        """The keys that identify its lines in the folder of results."""
        members = self.members or ((name,) for name in self.controls)
        return {(self.common, *member) for member in members}


def group_of(fields):
    """Returns the Group of dataclasses.asdict, also after JSON."""
    members = tuple(grid.Member(*one) for one in fields['members'])
    return Group(**fields | dict(members=members, controls=tuple(fields['controls'])))


def groups_of(config, tasks, stamps):
    """Returns all groups in the order of training, model by model; `stamps` are {model:
    load.fingerprint}."""
    groups = []
    for path, (name, task) in itertools.product(config.models, tasks.items()):
        first = path == config.models[0]
        for control, *content in _contents(config, task, first):
            common = _common(config, stamps[path], task, control, first)
            model = f'{path}, {control}' if control else path
            groups.append(Group(common, path, model, name, control, *content))
    return groups


def unique(groups):
    """Returns the groups without duplicates, i.e. the same model under a second name."""
    first = {(group.common, group.members): group for group in reversed(groups)}
    return [group for group in groups if first[group.common, group.members] is group]


def key_of(line):
    """Returns the key of Group.keys that a line matches."""
    if line.get('control') not in (None, controls.UNTRAINED):
        return line.get('item'), line['control']
    return line.get('item'), line['learning_rate'], line['seed']


def of_groups(lines, groups):
    """Returns the lines of these groups, with the current names of their models.

    Models may have been moved since they were trained, and one model may have two names.
    """
    paths = {}
    for group in groups:
        for key in group.keys:
            paths.setdefault(key, {})[group.path] = None
    matching = []
    for line in lines:
        for path in paths.get(key_of(line), ()):
            control = line.get('control')
            has_model = control in (None, controls.UNTRAINED, controls.BAG)
            name = f'{path}, {control}' if control else path
            matching.append(line | {'model': name if has_model else line['model']})
    return matching


def searching(config):
    """Returns the seeds that choose the learning rate."""
    return range(min(config.search_seeds or config.seeds, config.seeds))


def _contents(config, task, first):
    """Yields (control, members, controls) of each Group of a model on a task."""
    rates, seeds = config.learning_rates, searching(config)
    # On a CPU, training one after another is faster.
    at_once = len(rates) * jax.device_count() if jax.default_backend() != 'cpu' else 1
    width = config.width or at_once
    # Further seeds of a rate are groups of their own: those of one rate are trained.
    parts = [itertools.product(rates, seeds)]
    parts += [itertools.product([x], range(len(seeds), config.seeds)) for x in rates]
    parts = [list(itertools.starmap(grid.Member, part)) for part in parts]
    if task.zero_shot:
        parts = [[zero_shot.MEMBER]]
    for control, members in itertools.product(('', controls.UNTRAINED), parts):
        if not control or control in config.controls:
            for at in range(0, len(members), width):
                yield control, tuple(members[at : at + width])
    names = baselines.names(task, first)
    if names and 'words' in config.controls:
        yield examiner.CONTROLS, (), names


def _common(config, stamp, task, control, first):
    """Returns a name for what the members of a model on a task share: weights, data and
    settings, but not their folders or how many members are trained together."""
    shared = [
        identity.VERSION,
        stamp,
        identity.of_task(task),
        control,
        control == examiner.CONTROLS and (first, baselines.VERSIONS[task.kind]),
        schema.as_dict(config.finetuning),
    ]
    if task.kind == 'scores' and not task.zero_shot:
        shared.append('standardized')  # earlier versions learned them as they are
    name = '='.join(filter(None, (task.name, control)))
    return f'{_as_file(name)[:90]}={checksums.checksum(shared)[:12]}'


def _as_file(name):
    return re.sub(r'[^\w.+=-]+', '-', name, flags=re.ASCII)
