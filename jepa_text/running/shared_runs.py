"""A workdir of several runs, which several workers share: a folder that all see, or an
address, of which each has a copy of its own.

    bucket/study/claims/     which worker is at what: claim_objects.py
    bucket/study/<run>/      sent by the worker that holds its claim: mirror.py
    bucket/study/...         all else, sent by whoever made it

What counts is at the address. A copy has all small files; of a step of a run, what it
says of itself (`away`, restore.py), and the rest as soon as someone here goes on from it.
"""

import contextlib
import itertools
import posixpath
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jepa_text.files import addresses, cache, checksums, paths, transfer
from jepa_text.parallel import exits
from jepa_text.running import (
    claims,
    download,
    mirror,
    restore,
    retention,
    shared_workdir,
    sync,
    workdir,
)

_META = 'meta/metadata'
_THREADS = 4  # steps at once
_TRIES = 3  # of what others replace or remove meanwhile


@contextlib.contextmanager
def opened(place, common, left_out=lambda name: False):
    """A Here or an Away of a workdir, in whose `folder` this process works.

    `common` are the names in it that are of no run; files that are `left_out(name)` stay
    at an address. Raises as addresses.place and addresses.patiently do.
    """
    place = addresses.place('The workdir', place)
    if not addresses.is_address(place):
        yield Here(paths.local('The workdir', place))
        return
    with contextlib.ExitStack() as stack:
        yield Away(place.rstrip('/'), common, left_out, stack)


class Here:
    """A folder that all workers see."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.claims = self.folder / shared_workdir.CLAIMS

    def look(self):
        """What others made is here."""

    send = look

    def at(self, name):
        """The name of what is in the workdir, for those who open it themselves."""
        return str(self.folder / name)

    def run(self, name, check):
        """A run as mirror.opened takes it; `check` as of mirror.Part."""
        del check  # its lock tells
        return self.folder / name

    def once(self, item, is_done, do, lease):
        """What `do()` returns; several may do it at once."""
        del item, is_done, lease
        return do()

    def bring(self, name, step):
        """Is a step of a run whole? At an address it is here then."""
        return restore.why_not(_step(self.folder, name, step)) is None

    def leavings(self, name):
        """What a kill left of a save, or of a removal, in a run."""
        steps = self.folder / name / mirror.STEPS
        return retention.leavings(steps) if steps.is_dir() else []

    def retain(self, name, *kept):
        """Removes what is left over, and old steps of a run, as retention.old has it;
        another time if somebody is at work there."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(workdir.locked(self.folder / name))
            except RuntimeError:
                return
            for path in self.leavings(name):
                shutil.rmtree(path)
            retention.retain(self.folder / name / mirror.STEPS, *kept)


class Away:
    """The copy of a workdir at an address, which no other process has."""

    def __init__(self, address, common, left_out, stack):
        self.name, self._common = address, common
        self.claims = f'{address}/{shared_workdir.CLAIMS}'
        self._seen = {}  # (run, step): the version of its checksums
        self._half = {}  # run: steps that are there in part
        self.folder = _own(address, stack)
        self._copy = sync.Copy(
            address, self.folder, lambda name: _is_left_out(name) or left_out(name)
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        mirror.drop_away(self.folder)
        self._copy.forget_others(transfer.listed(address))
        self.look()
        print(
            f'{address}: works in {self.folder}; what is complete goes there, and what '
            'others make there comes from there.'
        )

    def look(self):
        """Brings what others made: small files, and which steps there are."""
        for _ in range(_TRIES - 1):
            with contextlib.suppress(FileNotFoundError):  # it was listed, and is gone
                return self._look()
        return self._look()

    def send(self):
        """Sends what was made here, but for the runs."""
        sent = self._copy.send(lambda name: name.split('/')[0] in self._common)
        if sent:
            self._copy.note(transfer.listed(self.name), sent)

    def at(self, name):
        """As Here.at."""
        return f'{self.name}/{name}'

    def run(self, name, check):
        """As Here.run."""
        return mirror.Part(f'{self.name}/{name}', self.folder / name, check)

    def once(self, item, is_done, do, lease):
        """What `do()` returns, if it was done here, and else None: others wait for the
        one that is at it, and see what it has sent."""
        made, failed = [], []

        def tried(item):
            self.look()
            try:
                with exits.refusals():
                    if not is_done():
                        made.append(do())
            except Exception as error:
                failed.append(error)
                raise

        while not made and not is_done():
            ended = claims.ended(self.claims)
            self.look()
            if item in ended and not is_done():
                claims.reopen(self.claims, item, ended[item])
            publish = (self.claims, [item], tried, lambda *_: self.send())
            worked = claims.work(*publish, lease=lease)
            if item in worked.failed and failed:
                raise failed[-1]
            if item in worked.failed:
                last = worked.failed[item].strip().splitlines()[-1]
                raise RuntimeError(f'{self.name}: {item} failed: {last}')
            if item in worked.lost:
                made.clear()
            self.look()
        return made[-1] if made else None

    def bring(self, name, step):
        """As Here.bring. One that is damaged is removed at the address, too."""
        place = _step(self.folder, name, step)
        if not restore.is_away(place):
            return place.is_dir() and restore.why_not(place) is None
        address = _step(self.name, name, step)
        for _ in range(_TRIES):
            try:
                mirror.bring_step(address, place, transfer.listed(address))
            except FileNotFoundError:
                shutil.rmtree(place, ignore_errors=True)
                return False
            if (reason := restore.why_not(place)) is None:
                return True
        print(f'{address} is damaged, and removed: {reason}')
        self._remove(name, [step])
        return False

    def leavings(self, name):
        """As Here.leavings: at the address."""
        return sorted(self._half.get(name, ()))

    def retain(self, name, *kept):
        """As Here.retain. Only of a run that has ended."""
        old = retention.old(retention.complete(self.folder / name / mirror.STEPS), *kept)
        self._remove(name, [*self.leavings(name), *old])

    def _remove(self, name, steps):
        there = transfer.listed(f'{self.name}/{name}')
        for step in steps:
            prefix = f'{mirror.STEPS}/{step}/'
            names = [one for one in there if one.startswith(prefix)]
            mirror.remove_step(f'{self.name}/{name}', prefix, names)
            shutil.rmtree(_step(self.folder, name, step), ignore_errors=True)
        self._half.pop(name, None)

    def _look(self):
        there = transfer.listed(self.name)
        found = {
            (top, step): there[f'{top}{mirror.STEPS}/{step}/{checksums.NAME}'].version
            for top, steps in download.runs(there).items()
            for step in steps
        }
        for path in list(self.folder.glob(f'**/{mirror.STEPS}/*')):
            top = path.parents[1].relative_to(self.folder).as_posix()
            if path.name.isdecimal() and (f'{top}/', int(path.name)) not in found:
                shutil.rmtree(path)
        new = [key for key, version in found.items() if self._is_new(key, version)]
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self._see, new))
        self._seen = found
        self._half = _halves(there, found)
        self._copy.bring(there)

    def _is_new(self, key, version):
        is_here = _step(self.folder, *key) / checksums.NAME
        return version is None or self._seen.get(key) != version or not is_here.is_file()

    def _see(self, key):
        """Puts here what a step at the address says of itself; nothing of one that is
        removed meanwhile, or says nothing."""
        place, address = _step(self.folder, *key), _step(self.name, *key)
        recorded = place / checksums.NAME
        try:
            sums = transfer.read(f'{address}/{checksums.NAME}')
            if recorded.is_file() and recorded.read_bytes() == sums:
                return
            meta = transfer.read(f'{address}/{_META}')
        except FileNotFoundError:
            return
        shutil.rmtree(place, ignore_errors=True)
        (place / _META).parent.mkdir(parents=True)
        (place / restore.AWAY).touch()
        (place / _META).write_bytes(meta)
        recorded.write_bytes(sums)


def _own(address, stack):
    """The folder of a copy that no other process of this machine has."""
    first = mirror.folder_of(address)
    cache.hold(first.parent.name)
    for number in itertools.count(1):
        top = first.parent if number == 1 else first.parent / f'.{number}'
        top.mkdir(exist_ok=True)
        try:
            stack.enter_context(workdir.locked(top))
        except RuntimeError:
            continue
        return top / posixpath.basename(address)
    return None


def _step(top, name, step):
    """The folder, or the address, of a step of a run."""
    name = f'{name.rstrip("/")}/{mirror.STEPS}/{step}'
    return top / name if isinstance(top, Path) else f'{top}/{name}'


def _halves(there, found):
    """{run: steps of which there are files, but no checksums}; a newer one than those
    with checksums is on its way."""
    halves, newest = {}, {}
    for top, step in found:
        newest[top] = max(step, newest.get(top, 0))
    for name in there:
        top, cut, rest = name.rpartition(f'/{mirror.STEPS}/')
        step = rest.split('/')[0]
        if not cut or not step.isdecimal() or (f'{top}/', int(step)) in found:
            continue
        if int(step) < newest.get(f'{top}/', 0):
            halves.setdefault(top, set()).add(int(step))
    return halves


def _is_left_out(name):
    return shared_workdir.CLAIMS in Path(name).parts or mirror.is_left_out(name)
