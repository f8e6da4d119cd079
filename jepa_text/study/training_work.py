"""The members of a study are trained, each from where another one has gone its way.

Several workers may share a study: each member is claimed by one of them
(running/claims.py), and taken over when that one is gone.
"""

import contextlib
import time

from jepa_text.evaluation.during_training import EVALUATIONS
from jepa_text.parallel import exits
from jepa_text.running import claims, restore, signals, workdir
from jepa_text.study import members, tree
from jepa_text.study.trunks import Trunks
from jepa_text.training import assemble, completion, train

_WAIT = 0.5  # seconds until it is looked again


class Worker:
    """This process at the work of a study, which others may share; a context manager.

    `place` is as of view.opened, `lease` and `attempts` are as of claims.work. Once it
    `asked` to stop, by a signal, exits.Stopped is raised, with all saved.
    """

    def __init__(self, place, lease, attempts):
        self.place, self.folder = place, place.folder
        self._settings = {'lease': lease, 'attempts': attempts}
        self._lost, self._claim = False, None
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
        folder = self.place.claims
        # Before the looks: what another worker ends after them is not gone.
        ended = claims.ended(folder)
        self.place.look()
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
            self.place.send()

        worked = claims.work(
            folder,
            list(items),
            once,
            lambda item, result: None,  # what was done lies where it belongs
            is_ready=is_ready,
            on_lost=self._lose,
            on_held=self._hold,
            look=self.place.look,
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

    def check_claim(self):
        """Raises claim.Lost if another worker has taken over what this one is at."""
        self._claim.check()

    def _hold(self, claim):
        self._claim = claim

    def _lose(self, item):
        self._lost = True


def item_of(kind, name):
    """What claims call the work of a kind on a member."""
    return '='.join([kind, *name.split('/')])


def train_all(configs, worker):
    """Trains the members that are not finished: {name: error} of those given up."""
    folder = worker.folder
    ended = set()

    def is_finished(name):
        if name not in ended and members.finished(folder / name, configs[name]):
            ended.add(name)
        return name in ended

    for name in filter(is_finished, configs):
        print(f'{name}: complete, {assemble.size(configs[name])[1]:,} steps')
    trunks = Trunks(worker.place, configs, courses(configs, folder), ended)

    def once(name):
        train_one(name, configs[name], trunks, worker)
        trunks.release(is_finished)

    failed = worker.share(
        'train',
        configs,
        is_finished,
        once,
        is_ready=trunks.is_ready,
        progress=lambda name: max(
            restore.steps(folder / name / 'checkpoints'), default=0
        ),
    )
    # What a worker had no time to release.
    trunks.release(is_finished)
    return failed


def train_one(name, config, trunks, worker):
    """Trains a member, or goes on with it, and keeps the states from which others go
    on."""
    folder = worker.folder / name
    # One whose claim was lost may yet have to notice it.
    while workdir.is_locked(folder) and not worker.asked:
        time.sleep(_WAIT)
    while trunk := trunks.of(name):
        # It may be gone: from one whose claim is another's, or damaged.
        if worker.place.bring(*trunk):
            print(f'{name}: goes on from {trunk[0]} after {trunk[1]:,} steps')
            trunk = worker.folder / trunk[0], trunk[1]
            break
    if again := trunks.again(name):
        print(f'{name}: {again}')
    config = keeping(config, trunks.milestones[name])
    place = worker.place.run(name, worker.check_claim)
    train.train(config, place, EVALUATIONS, stop=worker, trunk=trunk)


def keeping(config, steps):
    """The config of a run that also keeps its states after these steps."""
    section = config['checkpoint']
    steps = sorted({*section['keep_at'], *steps})
    return config | {'checkpoint': section | {'keep_at': steps}}


def courses(configs, folder):
    """{name: tree.Course} of members, on the devices that are here."""
    recipes = tree.Recipes(lambda own: assemble.outline(own, assemble.mesh(own)))
    found = {}
    for name, config in configs.items():
        own = completion.extended(
            completion.completed(config, folder / name), folder / name
        )
        is_timed = own['baseline'] == 'time'
        found[name] = tree.course(own, recipes.of(own), is_timed)
    return found
