"""Which members are trained together, and which of them are there.

A line answers a group by weights, data and settings, whatever the names of their folders:
what was trained elsewhere is not trained again, and what was changed is.
"""

import dataclasses
import functools
import itertools
import re
from pathlib import Path

import jax

from jepa_text.config import schema
from jepa_text.evaluation import controls, examiner, identity, zero_shot
from jepa_text.evaluation.members import grid
from jepa_text.files import checksums


@dataclasses.dataclass(frozen=True)
class Group:
    """Members of one model and task that are trained together; `common` is a name of what
    all members of both have in common.

    control    '' of the models, 'untrained', or examiner.CONTROLS, which has no members;
               of these the `first` has those, too, that need no model
    """

    common: str
    path: str
    model: str
    task: str
    members: tuple
    control: str = ''
    first: bool = False

    @property
    def item(self):
        """Its name among the claims."""
        called = _as_file(Path(self.path).name)[:60]
        if not self.members:
            return f'{self.common}={called}'
        digest = checksums.checksum(list(map(list, self.members)))
        rate, seed = self.members[0]
        return f'{self.common}={called}={rate:g}-{seed}={digest[:8]}'

    @functools.cached_property
    def keys(self):
        """What tells its lines from others, in the folder of results."""
        if not self.members:
            return {(self.common,)}
        return {(self.common, *member) for member in self.members}


def groups_of(config, made, stamps):
    """All groups, in the order in which they are trained: model by model; `stamps` are
    {model: load.stamp of it}."""
    groups = []
    for path, name in itertools.product(config.models, made):
        first = path == config.models[0]
        for control, wanted in _kinds(config, made[name]):
            if control == examiner.CONTROLS and examiner.ranks(made[name]) and not first:
                continue  # they need no model
            for part in wanted:
                common = _common(config, stamps[path], made[name], control, first)
                model = f'{path}, {control}' if control else path
                kept = common, path, model, name, part, control, first
                groups.append(Group(*kept))
    return groups


def once(groups):
    """The groups without those that are another's under a second name of its model."""
    first = {(group.common, group.members): group for group in reversed(groups)}
    return [group for group in groups if first[group.common, group.members] is group]


def key_of(line):
    """Which of Group.keys a line answers."""
    if line.get('control') not in (None, controls.UNTRAINED):
        return (line.get('item'),)
    return line.get('item'), line['learning_rate'], line['seed']


def named(lines, groups):
    """The lines of these groups, with the models called as they are now: they may lie
    elsewhere than when they were trained, and one model under two names."""
    paths = {}
    for group in groups:
        for key in group.keys:
            paths.setdefault(key, {})[group.path] = None
    found = []
    for line in lines:
        for path in paths.get(key_of(line), ()):
            control = line.get('control')
            has_model = control in (None, controls.UNTRAINED, controls.BAG)
            called = f'{path}, {control}' if control else path
            found.append(line | {'model': called if has_model else line['model']})
    return found


def width_of(config):
    """How many members are one group; 0 is one on a CPU, where one after the other is
    faster, and elsewhere a seed of each learning rate on each device. It is the same
    whatever memory there is: a group is what others take over and what is resumed."""
    if config.width:
        return config.width
    if jax.default_backend() == 'cpu':
        return 1
    return len(config.learning_rates) * jax.device_count()


def _kinds(config, task):
    """[(control, [the members of each group])] of a model on a task."""
    width, seeds = width_of(config), range(config.seeds)
    members = list(
        itertools.starmap(grid.Member, itertools.product(config.learning_rates, seeds))
    )
    if zero_shot.as_it_is(task):
        members = [zero_shot.MEMBER]
    parts = [tuple(members[at : at + width]) for at in range(0, len(members), width)]
    kinds = [('', parts)]
    if 'untrained' in config.controls:
        kinds.append((controls.UNTRAINED, parts))
    if 'words' in config.controls:
        kinds.append((examiner.CONTROLS, [()]))
    return kinds


def _common(config, stamp, task, control, first):
    """A name of what the members of a model on a task have in common: another one of
    other weights, data or settings, and the same wherever these lie, and however many are
    trained together."""
    who = [identity.VERSION, stamp, identity.of_task(task)]
    who += [control, first and control == examiner.CONTROLS]
    who += [schema.as_dict(config.finetuning)]
    name = '='.join(filter(None, (task.name, control)))
    return f'{_as_file(name)[:90]}={checksums.checksum(who)[:12]}'


def _as_file(name):
    return re.sub(r'[^\w.+=-]+', '-', name, flags=re.ASCII)
