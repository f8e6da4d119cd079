"""Workdirs of several runs, shared by workers in a common folder or via an address.

    bucket/study/claims/     which worker computes what: claim_objects.py
    bucket/study/<run>/      uploaded by the worker that holds its claim: mirror.py
    bucket/study/...         everything else, uploaded by the worker that made it

Each worker has its own copy of an address, which is authoritative. A copy contains all
small files; of a step of a run it has only the meta (`REMOTE`, restore.py) until a run on
this machine starts from that step.
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
_THREADS = 4  # steps downloaded at the same time
_TRIES = 3  # if others replace or remove files meanwhile


@contextlib.contextmanager
def opened(place, common, left_out=lambda name: False):
    """Yields the Local or Remote workdir in whose `folder` this process works.

    `common` are the names in it that belong to no run; files for which `left_out(name)`
    is true are not downloaded. Raises as addresses.location and addresses.with_retries.
    """
    place = addresses.location('The workdir', place)
    if not addresses.is_address(place):
        yield Local(paths.local('The workdir', place))
        return
    with contextlib.ExitStack() as stack:
        yield Remote(place.rstrip('/'), common, left_out, stack)


class Local:
    """A folder that all workers share."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.claims = self.folder / shared_workdir.CLAIMS

    def refresh(self):
        """Does nothing: the folder already has what other workers made."""

    send = refresh

    def at(self, name):
        """The path of a name in the workdir, for processes that open it themselves."""
        return str(self.folder / name)

    def run(self, name, check):
        """A run, as `mirror.opened` takes it; `check` as in mirror.Part."""
        del check  # the lock of the folder is enough
        return self.folder / name

    def once(self, item, is_done, do, lease):
        """Returns `do()`; several workers may do it at the same time."""
        del item, is_done, lease
        return do()

    def fetch(self, name, step):
        """Returns whether a step of a run is intact; a Remote downloads it first."""
        return restore.problem(_step(self.folder, name, step)) is None

    def leftovers(self, name):
        """What a killed save or removal left behind in a run."""
        steps = self.folder / name / mirror.STEPS
        return retention.leftovers(steps) if steps.is_dir() else []

    def retain(self, name, *policy):
        """Removes leftovers and old steps of a run, as `retention.old` with `policy`.

        Does nothing while another process works on the run.
        """
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(workdir.locked(self.folder / name))
            except RuntimeError:
                return
            for path in self.leftovers(name):
                shutil.rmtree(path)
            retention.retain(self.folder / name / mirror.STEPS, *policy)


class Remote:
    """The copy of a workdir at an address, used by this process only."""

    def __init__(self, address, common, left_out, stack):
        self.name, self._common = address, common
        self.claims = f'{address}/{shared_workdir.CLAIMS}'
        self._seen = {}  # (run, step): the version of its checksums
        self._incomplete = {}  # run: steps that are only partly at the address
        self.folder = _own_folder(address, stack)
        self._copy = sync.Copy(
            address, self.folder, lambda name: _is_left_out(name) or left_out(name)
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        mirror.remove_stubs(self.folder)
        self._copy.delete_unlisted(transfer.list_files(address))
        self.refresh()
        print(
            f'{address}: working in {self.folder}; complete results are uploaded, and '
            'those of other workers are downloaded.'
        )

    def refresh(self):
        """Downloads what others made: small files, and the list of steps."""
        for _ in range(_TRIES - 1):
            with contextlib.suppress(FileNotFoundError):  # removed after it was listed
                return self._refresh()
        return self._refresh()

    def send(self):
        """Uploads what was made here, except for runs."""
        sent = self._copy.upload(lambda name: name.split('/')[0] in self._common)
        if sent:
            self._copy.record(transfer.list_files(self.name), sent)

    def at(self, name):
        """As Local.at."""
        return f'{self.name}/{name}'

    def run(self, name, check):
        """As Local.run."""
        return mirror.Part(f'{self.name}/{name}', self.folder / name, check)

    def once(self, item, is_done, do, lease):
        """Returns `do()` if this worker did it, else None.

        Only one worker does it; the others wait, and then see what it has uploaded.
        """
        made, failed = [], []

        def attempt(item):
            self.refresh()
            try:
                with exits.config_errors():
                    if not is_done():
                        made.append(do())
            except Exception as error:
                failed.append(error)
                raise

        while not made and not is_done():
            ended = claims.ended(self.claims)
            self.refresh()
            if item in ended and not is_done():
                claims.reopen(self.claims, item, ended[item])
            worked = claims.work(
                self.claims, [item], attempt, lambda *_: self.send(), lease=lease
            )
            if item in worked.failed and failed:
                raise failed[-1]
            if item in worked.failed:
                last = worked.failed[item].strip().splitlines()[-1]
                raise RuntimeError(f'{self.name}: {item} failed: {last}')
            if item in worked.lost:
                made.clear()
            self.refresh()
        return made[-1] if made else None

    def fetch(self, name, step):
        """As Local.fetch. A damaged step is removed at the address, too."""
        place = _step(self.folder, name, step)
        if not restore.is_remote(place):
            return place.is_dir() and restore.problem(place) is None
        address = _step(self.name, name, step)
        for _ in range(_TRIES):
            try:
                mirror.download_step(address, place, transfer.list_files(address))
            except FileNotFoundError:
                shutil.rmtree(place, ignore_errors=True)
                return False
            if (reason := restore.problem(place)) is None:
                return True
        print(f'{address} is damaged and was removed: {reason}')
        self._remove(name, [step])
        return False

    def leftovers(self, name):
        """As Local.leftovers, at the address."""
        return sorted(self._incomplete.get(name, ()))

    def retain(self, name, *policy):
        """As Local.retain. The run must have ended."""
        complete = retention.complete(self.folder / name / mirror.STEPS)
        old = retention.old(complete, *policy)
        self._remove(name, [*self.leftovers(name), *old])

    def _remove(self, name, steps):
        remote = transfer.list_files(f'{self.name}/{name}')
        for step in steps:
            prefix = f'{mirror.STEPS}/{step}/'
            names = [file for file in remote if file.startswith(prefix)]
            mirror.remove_step(f'{self.name}/{name}', prefix, names)
            shutil.rmtree(_step(self.folder, name, step), ignore_errors=True)
        self._incomplete.pop(name, None)

    def _refresh(self):
        remote = transfer.list_files(self.name)
        found = {
            (top, step): remote[f'{top}{mirror.STEPS}/{step}/{checksums.NAME}'].version
            for top, steps in download.runs(remote).items()
            for step in steps
        }
        for path in list(self.folder.glob(f'**/{mirror.STEPS}/*')):
            top = path.parents[1].relative_to(self.folder).as_posix()
            if path.name.isdecimal() and (f'{top}/', int(path.name)) not in found:
                shutil.rmtree(path)
        new = [key for key, version in found.items() if self._is_new(key, version)]
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self._download_meta, new))
        self._seen = found
        self._incomplete = _incomplete(remote, found)
        self._copy.download(remote)

    def _is_new(self, key, version):
        recorded = _step(self.folder, *key) / checksums.NAME
        return version is None or self._seen.get(key) != version or not recorded.is_file()

    def _download_meta(self, key):
        """Downloads the meta and checksums of a step; nothing if the step has none or was
        removed meanwhile."""
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
        (place / restore.REMOTE).touch()
        (place / _META).write_bytes(meta)
        recorded.write_bytes(sums)


def _own_folder(address, stack):
    """The folder of a copy that no other process of this machine uses."""
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
    """The folder or address of a step of a run."""
    name = f'{name.rstrip("/")}/{mirror.STEPS}/{step}'
    return top / name if isinstance(top, Path) else f'{top}/{name}'


def _incomplete(remote, found):
    """{run: steps that have files but no checksums}.

    Newer steps than those with checksums are left out: they are being uploaded.
    """
    incomplete, newest = {}, {}
    for top, step in found:
        newest[top] = max(step, newest.get(top, 0))
    for name in remote:
        top, cut, rest = name.rpartition(f'/{mirror.STEPS}/')
        step = rest.split('/')[0]
        if not cut or not step.isdecimal() or (f'{top}/', int(step)) in found:
            continue
        if int(step) < newest.get(f'{top}/', 0):
            incomplete.setdefault(top, set()).add(int(step))
    return incomplete


def _is_left_out(name):
    return shared_workdir.CLAIMS in Path(name).parts or mirror.is_left_out(name)
