"""Trunks: checkpoints of members from which other members continue.

A member keeps its checkpoint at each step where another member branches off (tree.py).
Once all members that continue from it have finished, it is removed, unless the section
`checkpoint` retains it. A member that is added later then trains these steps again.
"""

from jepa_text.files import checksums
from jepa_text.running import mirror, restore, retention
from jepa_text.study import tree


def origins(courses, folder, ended):
    """Like tree.origins, but with existing checkpoints only of members that have ended.

    The `ended` members come first, as all others can use their checkpoints.
    """
    order = sorted(courses, key=lambda name: name not in ended)
    found = tree.origins({name: courses[name] for name in order})
    for name in found.keys() - ended:
        left = [
            (other, _newest(folder / other, count) if other in ended else count)
            for other, count in found[name]
        ]
        found[name] = sorted(
            [pair for pair in left if pair[1]], key=lambda pair: -pair[1]
        )
    return found


class Trunks:
    """Chooses the checkpoint from which each member continues.

    `place` is as of shared_runs.opened. `ended` are members that train no more; a member
    waits for the members before it that have not ended.
    """

    def __init__(self, place, configs, courses, ended):
        self._place, self._folder = place, place.folder
        self._configs, self._courses = configs, courses
        self._origins = origins(courses, place.folder, set(ended))
        self.milestones = tree.milestones(self._origins)

    def is_ready(self, name, open_):
        """Whether a member need not wait for one of the unfinished members `open_`."""
        return self._found(name, open_) is not None

    def of(self, name):
        """Returns (member, step) of the checkpoint that a member continues from.

        None if it starts from scratch, or has begun.
        """
        other, step = self._found(name, ())
        return (other, step) if step else None

    def retrained(self, name):
        """Returns a message if a new member repeats steps that another one has trained.

        This happens if the checkpoint of the other member was not retained; '' otherwise.
        """
        if restore.steps(self._folder / name / mirror.STEPS):
            return ''
        _, step = self._found(name, ())
        best, own = ('', 0), self._courses[name]
        for other, course in self._courses.items():
            newest = max(restore.steps(self._folder / other / mirror.STEPS), default=0)
            count = min(newest, tree.common_steps(own, course))
            best = max(best, (other, count), key=lambda pair: pair[1])
        other, count = best
        if count <= step:
            return ''
        return (
            f'steps {step + 1:,} to {count:,} are the same as in {other}, but its '
            'checkpoint was not retained: they are trained again'
        )

    def release(self, is_finished):
        """Removes checkpoints that were only retained for members that are now finished.

        Only those of finished members are removed.
        """
        for other in self._origins:
            if self._is_spare(other, ()) and is_finished(other):
                needed = self._needed(other, is_finished)
                if self._is_spare(other, needed):
                    self._place.retain(other, *self._retention(other, needed))

    def _is_spare(self, other, needed):
        """Whether a member has removable checkpoints, or remains of removed ones."""
        folder = self._folder / other / mirror.STEPS
        if not folder.is_dir():
            return False
        spare = retention.old(retention.complete(folder), *self._retention(other, needed))
        return bool(spare or self._place.leftovers(other))

    def _needed(self, other, is_finished):
        """The steps of a member from which another member may still continue."""
        counts = {
            count
            for name, shared in self._origins.items()
            for origin, count in shared
            if origin == other and not is_finished(name)
        }
        return {_newest(self._folder / other, count) for count in counts}

    def _retention(self, other, needed):
        """Returns (keep, keep_every, keep_at) for retention.old."""
        section = self._configs[other]['checkpoint']
        at = {*section['keep_at'], *needed}
        return section['keep'], section.get('keep_every'), at

    def _found(self, name, open_):
        """Returns (member, step) to continue from; ('', 0): from scratch or from its own
        checkpoint; None: it must wait."""
        best = ('', 0)
        if restore.steps(self._folder / name / mirror.STEPS):
            return best
        for other, count in self._origins[name]:
            if count <= best[1]:
                return best
            step = _newest(self._folder / other, count)
            if step > best[1]:
                best = (other, step)
            if other in open_ and best[1] < count:
                return None
        return best


def _newest(folder, count):
    """Returns the newest intact checkpoint of a member up to a step; 0 if none."""
    steps = folder / mirror.STEPS
    found = (s for s in reversed(restore.steps(steps)) if s <= count)
    return next((s for s in found if _is_intact(steps / str(s))), 0)


def _is_intact(path):
    return (path / checksums.NAME).exists() and restore.problem(path) is None
