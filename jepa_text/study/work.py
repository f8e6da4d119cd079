"""The members of a study are trained, each from where another one has gone its way.

Several workers may share the folder of a study: each member is claimed by one of them
(running/claims.py), and taken over when that one is gone.
"""

import contextlib
import time
from pathlib import Path

from jepa_text.evaluation.beside import EVALUATIONS
from jepa_text.files import checksums
from jepa_text.parallel import exits
from jepa_text.running import claims, restore, signals, workdir
from jepa_text.study import members, tree
from jepa_text.training import assemble, settle, train

CLAIMS = 'claims'
_WAIT = 0.5  # seconds until it is looked again


class Worker:
    """This process at the work of a study, which others may share; a context manager.

    `lease` and `attempts` are as of claims.work. Once it `asked` to stop, by a signal,
    exits.Stopped is raised, with all saved.
    """

    def __init__(self, folder, lease, attempts):
        self.folder = Path(folder)
        self._settings = {'lease': lease, 'attempts': attempts}
        self._lost = False
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        self._requests = self._stack.enter_context(signals.Requests())
        return self

    def __exit__(self, *error):
        self._stack.close()

    @property
    def asked(self):
        """Is the step that is taken to be the last here? As signals.Requests."""
        return self._requests.asked or self._lost

    def share(self, kind, names, is_done, do, **hooks):
        """Does `do(name)` for all that is not done, here or at other workers, and returns
        {name: error} of what was given up. `hooks` of claims.work, but by name.

        What had been given up before, or is gone, is tried again.
        """
        folder = self.folder / CLAIMS
        # Before the looks: what another worker ends after them is not gone.
        ended = claims.ended(folder)
        items = {item_of(kind, name): name for name in names if not is_done(name)}
        for item in items.keys() & ended.keys():
            claims.reopen(folder, item, ended[item])
        ready = hooks.pop('is_ready', lambda name, open_: True)

        def is_ready(item, open_):
            self.check()
            return ready(items[item], {items[one] for one in open_})

        def once(item):
            self._lost = False
            do(items[item])

        worked = claims.work(
            folder,
            list(items),
            once,
            lambda item, result: None,  # what was done lies where it belongs
            is_ready=is_ready,
            on_lost=self._lose,
            pause=self.pause,
            **{
                key: lambda item, call=call: call(items[item])
                for key, call in hooks.items()
            },
            **self._settings,
        )
        self.check()
        return {items[item]: error for item, error in worked.failed.items()}

    def check(self):
        """Raises exits.Stopped if it was asked to stop."""
        if self._requests.asked:
            raise exits.Stopped(
                'stopped as asked; all is saved, and the same command goes on from there.'
            )

    def pause(self, seconds):
        """Waits for others, unless it is asked to stop."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, _WAIT))

    def _lose(self, item):
        self._lost = True


def item_of(kind, name):
    """What claims call the work of a kind on a member."""
    return '='.join([kind, *name.split('/')])


def train_all(configs, worker):
    """Trains the members that are not finished: {name: error} of those given up."""
    folder = worker.folder
    ended = {
        name for name, one in configs.items() if members.finished(folder / name, one)
    }
    for name in ended:
        print(f'{name}: complete, {assemble.size(configs[name])[1]:,} steps')
    trunks = Trunks(folder, courses(configs, folder), ended)
    return worker.share(
        'train',
        configs,
        lambda name: members.finished(folder / name, configs[name]),
        lambda name: train_one(name, configs[name], trunks, worker),
        is_ready=trunks.is_ready,
        progress=lambda name: max(
            restore.steps(folder / name / 'checkpoints'), default=0
        ),
    )


def train_one(name, config, trunks, worker):
    """Trains a member, or goes on with it, and keeps the states from which others go
    on."""
    folder = worker.folder / name
    # One whose claim was lost may yet have to notice it.
    while workdir.is_locked(folder) and not worker.asked:
        time.sleep(_WAIT)
    trunk = trunks.of(name)
    if trunk:
        source = trunk[0].relative_to(worker.folder)
        print(f'{name}: goes on from {source} after {trunk[1]:,} steps')
    config = keeping(config, trunks.milestones[name])
    train.train(config, folder, EVALUATIONS, stop=worker, trunk=trunk)


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

    `ended` are those that train no more; others are waited for by those after them.
    """

    def __init__(self, folder, courses, ended):
        self._folder = folder
        # What is there already can be of use to all.
        order = sorted(courses, key=lambda name: name not in ended)
        self._origins = tree.origins({name: courses[name] for name in order})
        self.milestones = tree.milestones(self._origins)

    def is_ready(self, name, open_):
        """Need a member not wait for the state of one of those that are `open_`?"""
        return self._found(name, open_) is not None

    def of(self, name):
        """(workdir, step) of the state that a member goes on from; None where it begins
        by itself, or has begun."""
        other, step = self._found(name, ())
        return (self._folder / other, step) if step else None

    def _found(self, name, open_):
        """(member, step) to go on from, ('', 0) for what is its own, None for later."""
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
            if other in open_ and best[1] < count:
                return None
        return best


def _is_whole(path):
    return (path / checksums.NAME).exists() and restore.why_not(path) is None
