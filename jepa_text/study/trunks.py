"""States of members from which others go on: which to take, and when they can go.

A member keeps its state where another one leaves it (tree.py). Once all that go on from
there have ended, it is removed, unless the section `checkpoint` lets it stay; an arm that
comes later, and had it in common, trains these steps again.
"""

from jepa_text.files import checksums
from jepa_text.running import mirror, restore, retention
from jepa_text.study import tree


def origins(courses, folder, ended):
    """As tree.origins, with the `ended` first, as their states can be of use to all; and
    of these only states that are there yet."""
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
    """Which state of which member another one goes on from.

    `place` is as of view.opened. `ended` are those that train no more; others are waited
    for by those after them.
    """

    def __init__(self, place, configs, courses, ended):
        self._place, self._folder = place, place.folder
        self._configs, self._courses = configs, courses
        self._origins = origins(courses, place.folder, set(ended))
        self.milestones = tree.milestones(self._origins)

    def is_ready(self, name, open_):
        """Need a member not wait for the state of one of those that are `open_`?"""
        return self._found(name, open_) is not None

    def of(self, name):
        """(member, step) of the state that a member goes on from; None where it begins
        by itself, or has begun."""
        other, step = self._found(name, ())
        return (other, step) if step else None

    def again(self, name):
        """In words, which steps a member that has not begun trains though another one
        did; '' for none."""
        if restore.steps(self._folder / name / mirror.STEPS):
            return ''
        _, step = self._found(name, ())
        best, own = ('', 0), self._courses[name]
        for other, course in self._courses.items():
            gone = max(restore.steps(self._folder / other / mirror.STEPS), default=0)
            count = min(gone, tree.common(own, course))
            best = max(best, (other, count), key=lambda pair: pair[1])
        other, count = best
        if count <= step:
            return ''
        return (
            f'steps {step + 1:,} to {count:,} are those of {other}, whose state there is '
            'not kept: they are trained again'
        )

    def release(self, is_finished):
        """Removes of members that are finished the states that only stay for others, as
        soon as all of these are finished."""
        for other in self._origins:
            if self._is_spare(other, ()) and is_finished(other):
                needed = self._needed(other, is_finished)
                if self._is_spare(other, needed):
                    self._place.retain(other, *self._staying(other, needed))

    def _is_spare(self, other, needed):
        """Has a member states beside those that stay, or what a kill left of them?"""
        folder = self._folder / other / mirror.STEPS
        if not folder.is_dir():
            return False
        spare = retention.old(retention.complete(folder), *self._staying(other, needed))
        return bool(spare or self._place.leavings(other))

    def _needed(self, other, is_finished):
        """The states of a member from which another one may yet go on."""
        counts = {
            count
            for name, shared in self._origins.items()
            for one, count in shared
            if one == other and not is_finished(name)
        }
        return {_newest(self._folder / other, count) for count in counts}

    def _staying(self, other, needed):
        """(keep, keep_every, keep_at) as retention.old takes them."""
        section = self._configs[other]['checkpoint']
        at = {*section['keep_at'], *needed}
        return section['keep'], section.get('keep_every'), at

    def _found(self, name, open_):
        """(member, step) to go on from, ('', 0) for what is its own, None for later."""
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
    """The newest whole state of a member up to a step; 0 for none."""
    steps = folder / mirror.STEPS
    found = (s for s in reversed(restore.steps(steps)) if s <= count)
    return next((s for s in found if _is_whole(steps / str(s))), 0)


def _is_whole(path):
    return (path / checksums.NAME).exists() and restore.why_not(path) is None
