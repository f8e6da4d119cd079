"""The members of a study are trained, each from where another one has gone its way."""

from pathlib import Path

from jepa_text.evaluation.beside import EVALUATIONS
from jepa_text.files import checksums
from jepa_text.parallel import exits
from jepa_text.running import restore, signals
from jepa_text.study import members, tree
from jepa_text.training import assemble, settle, train


def train_all(configs, folder):
    """Trains the members that are not finished. Raises exits.Stopped after a signal, also
    one that came in the last step of a run, which then needs no save."""
    folder = Path(folder)
    ended = {
        name for name, one in configs.items() if members.finished(folder / name, one)
    }
    trunks = Trunks(folder, courses(configs, folder), ended)
    with signals.Requests() as stop:
        for name, config in configs.items():
            if name in ended:
                print(f'{name}: complete, {assemble.size(config)[1]:,} steps')
            else:
                train_one(name, config, folder, trunks, stop)
            if stop.asked:
                raise exits.Stopped(
                    f'stopped after run {name!r} as asked; all is saved, and the same '
                    'command goes on from there.'
                )


def train_one(name, config, folder, trunks, stop):
    """Trains a member, or goes on with it, and keeps the states from which others go
    on."""
    trunk = trunks.of(name)
    if trunk:
        print(f'{name}: goes on from {trunk[0].relative_to(folder)} after {trunk[1]:,}')
    config = keeping(config, trunks.milestones[name])
    train.train(config, folder / name, EVALUATIONS, stop=stop, trunk=trunk)


def keeping(config, steps):
    """The config of a run that also keeps its states after these steps."""
    section = config['checkpoint']
    steps = sorted({*section['keep_at'], *steps})
    return config | {'checkpoint': section | {'keep_at': steps}}


def courses(configs, folder):
    """{name: tree.Course} of members, on the devices that are here."""
    recipes, found = [], {}
    for name, config in configs.items():
        own = settle.extended(settle.completed(config, folder / name), folder / name)
        # Seeds of a run have one recipe, but for the seed.
        key = {k: v for k, v in own.items() if k not in ('name', 'seed')}
        made = next((recipe for other, recipe in recipes if other == key), None)
        if made is None:
            made = assemble.outline(own, assemble.mesh(own))
            recipes.append((key, made))
        found[name] = tree.course(own, made)
    return found


class Trunks:
    """Which state of which member another one goes on from.

    `ended` are those that train no more.
    """

    def __init__(self, folder, courses, ended):
        self._folder = folder
        # What is there already can be of use to all.
        order = sorted(courses, key=lambda name: name not in ended)
        self._origins = tree.origins({name: courses[name] for name in order})
        self.milestones = tree.milestones(self._origins)

    def of(self, name):
        """(workdir, step) of the state that a member goes on from; None where it begins
        by itself, or has begun."""
        other, step = self._found(name)
        return (self._folder / other, step) if step else None

    def _found(self, name):
        """(member, step) to go on from; ('', 0) for what is its own."""
        best = ('', 0)
        if restore.steps(self._folder / name / 'checkpoints'):
            return best
        for other, count in self._origins[name]:
            if count <= best[1]:
                return best
            steps = self._folder / other / 'checkpoints'
            for step in reversed(restore.steps(steps)):
                if step <= count and step > best[1] and _is_whole(steps / str(step)):
                    best = (other, step)
                    break
        return best


def _is_whole(path):
    return (path / checksums.NAME).exists() and restore.why_not(path) is None
