"""Trains the members of a study, each from the trunk that it shares with others.

Several workers may share a study. Each member is claimed by one worker
(running/claims.py); another worker takes over if that one stops responding.
"""

import time

from jepa_text.evaluation.during_training import EVALUATIONS
from jepa_text.parallel import exits, signals
from jepa_text.running import claims, restore, workdir
from jepa_text.study import members, tree
from jepa_text.study.trunks import Trunks
from jepa_text.training import completion, train
from jepa_text.training import recipe as recipes

_WAIT = 0.5  # seconds between polls


class Worker:
    """This process as a worker of a study; a context manager.

    `place` is as of shared_runs.opened, `lease` and `attempts` are as in claims.work.
    After a signal asked to stop, exits.Stopped is raised once everything is saved.
    """

    def __init__(self, place, lease, attempts):
        self.place, self.folder = place, place.folder
        self._settings = {'lease': lease, 'attempts': attempts}
        self._lost, self._claim = False, None
        self._requests = signals.StopRequests()

    def __enter__(self):
        self._requests.__enter__()
        return self

    def __exit__(self, *error):
        self._requests.__exit__(*error)

    @property
    def requested(self):
        """Whether to stop after the current step; as in signals.StopRequests."""
        return self._requests.requested or self._lost

    def share(self, kind, names, is_done, do, is_ready=None, progress=None):
        """Calls `do(name)` for all names that are not done, here or on other workers.

        Returns {name: error} of what was given up. `is_ready` and `progress` are as in
        claims.work, but take names. What was given up or lost earlier is tried again.
        """
        folder = self.place.claims
        # Before the checks: what another worker finishes after them is not lost.
        ended = claims.ended(folder)
        self.place.refresh()
        items = {item_of(kind, name): name for name in names if not is_done(name)}
        for item in items.keys() & ended.keys():
            claims.reopen(folder, item, ended[item])

        def ready(item, open_):
            self.check()
            others = {items[one] for one in open_}
            return is_ready is None or is_ready(items[item], others)

        def once(item):
            self._lost = False
            do(items[item])
            self.place.send()

        worked = claims.work(
            folder,
            list(items),
            once,
            lambda item, result: None,  # `do` has written its results
            is_ready=ready,
            progress=progress and (lambda item: progress(items[item])),
            on_lost=self._lose,
            on_held=self._hold,
            refresh=self.place.refresh,
            pause=self.pause,
            **self._settings,
        )
        self.check()
        return {items[item]: error for item, error in worked.failed.items()}

    def check(self):
        """Raises exits.Stopped if a signal asked to stop."""
        if self._requests.requested:
            raise exits.Stopped(
                'stopped as requested; everything is saved. Run the same command again '
                'to resume.'
            )

    def pause(self, seconds):
        """Sleeps while waiting for other workers; raises exits.Stopped as `check`."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, _WAIT))

    def check_claim(self):
        """Raises claim.Lost if another worker has taken over the current item."""
        self._claim.check()

    def _hold(self, claim):
        self._claim = claim

    def _lose(self, item):
        self._lost = True


def item_of(kind, name):
    """Returns the name in claims/ of one kind of work on a member."""
    return '='.join([kind, *name.split('/')])


def train_all(configs, worker):
    """Trains the members that are not finished. Returns {name: error} of failed ones."""
    folder = worker.folder
    ended = set()

    def is_finished(name):
        if name not in ended and members.finished(folder / name, configs[name]):
            ended.add(name)
        return name in ended

    for name in filter(is_finished, configs):
        print(f'{name}: complete, {recipes.size(configs[name])[1]:,} steps')
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
    # Also what workers were stopped before releasing.
    trunks.release(is_finished)
    return failed


def train_one(name, config, trunks, worker):
    """Trains or resumes a member, and retains checkpoints that others continue from."""
    folder = worker.folder / name
    # A worker that lost its claim may not have noticed yet.
    while workdir.is_locked(folder) and not worker.requested:
        time.sleep(_WAIT)
    while trunk := trunks.of(name):
        # The checkpoint may be damaged, or removed by another worker.
        if worker.place.fetch(*trunk):
            print(f'{name}: continues from {trunk[0]} after {trunk[1]:,} steps')
            trunk = worker.folder / trunk[0], trunk[1]
            break
    if message := trunks.retrained(name):
        print(f'{name}: {message}')
    config = with_milestones(config, trunks.milestones[name])
    place = worker.place.run(name, worker.check_claim)
    train.train(config, place, EVALUATIONS, stop=worker, trunk=trunk)


def with_milestones(config, steps):
    """Returns the config of a run that also retains checkpoints at these steps."""
    section = config['checkpoint']
    steps = sorted({*section['keep_at'], *steps})
    return config | {'checkpoint': section | {'keep_at': steps}}


def courses(configs, folder):
    """Returns {name: tree.Course} of members on the devices of this machine."""
    outlines = tree.Recipes(lambda own: recipes.outline(own, recipes.mesh(own)))
    found = {}
    for name, config in configs.items():
        own = completion.with_extension(
            completion.with_init_from(config, folder / name), folder / name
        )
        found[name] = tree.course(own, outlines.of(own))
    return found
