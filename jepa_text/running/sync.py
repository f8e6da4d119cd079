"""Two-way file sync between an address and its local copy; transfers only changes."""

import json
import os
from pathlib import Path

from jepa_text.files import atomic, checksums, transfer

_KNOWN = 'known.json'


class Copy:
    """Files below an address and their local folder; skips files where `left_out(name)`.

    The file `known`, by default known.json next to the folder, records which local file
    is which version at the address, so that nothing is downloaded twice.
    """

    def __init__(self, address, folder, left_out=lambda name: False, known=None):
        self.address, self.folder = address, folder
        self._known_file = known or folder.parent / _KNOWN
        self._left_out = left_out
        self._synced = {}  # name: (size, time) of files that are the same on both sides

    def download(self, remote):
        """Downloads the changed files of a listing; other local files are not touched."""
        self.folder.mkdir(parents=True, exist_ok=True)
        known = self._read_known()
        wanted = {name: file for name, file in remote.items() if not self._left_out(name)}
        outdated = [
            name
            for name, file in wanted.items()
            if file.version is None
            or known.get(name) != [file.version, *self._stamp(name)]
        ]
        transfer.download_files(self.address, self.folder, outdated)
        self._synced |= {name: self._stamp(name) for name in wanted}
        self.record(remote)

    def upload(self, wanted=lambda name: True):
        """Uploads changed files that are `wanted`, oldest first; returns their names."""
        changed = {n: stamp for n, stamp in self._changed().items() if wanted(n)}
        for name in sorted(changed, key=lambda name: changed[name][1]):
            # Read it in one go: a file such as the metrics may grow meanwhile.
            content = (self.folder / name).read_bytes()
            transfer.write(f'{self.address}/{name}', content)
            self._synced[name] = changed[name]
        return list(changed)

    def delete_unlisted(self, remote):
        """Deletes local files that are not in a listing, and folders left empty."""
        for at, _, names in os.walk(self.folder, topdown=False):
            for name in names:
                path = Path(at, name)
                if path.relative_to(self.folder).as_posix() not in remote:
                    path.unlink()
            if Path(at) != self.folder and not os.listdir(at):
                os.rmdir(at)

    def record(self, remote, sent=None):
        """Records which versions of a listing are here.

        That is of all files, or of those that were `sent` just before the listing.
        """
        before = self._read_known()
        known = {} if sent is None else dict(before)
        known |= {
            name: [remote[name].version, *self._synced[name]]
            for name in (remote.keys() if sent is None else remote.keys() & set(sent))
            if name in self._synced and remote[name].size == self._synced[name][0]
        }
        if known != before:
            atomic.write(self._known_file, json.dumps(known))

    def _changed(self):
        """{name: stamp} of local files to upload."""
        stamps = {name: self._stamp(name) for name in self._names()}
        return {
            name: stamp
            for name, stamp in stamps.items()
            if stamp and self._synced.get(name) != stamp
        }

    def _names(self):
        """Yields the names of all local files that are synced."""
        for at, _, names in os.walk(self.folder):
            for name in names:
                path = Path(at, name).relative_to(self.folder)
                hidden = any(part.startswith('.') for part in path.parts)
                if not (hidden or name.endswith('.tmp') or self._left_out(str(path))):
                    yield path.as_posix()

    def _stamp(self, name):
        """(size, modification time) of a local file; () if it does not exist."""
        try:
            found = (self.folder / name).stat()
        except FileNotFoundError:
            return ()
        return found.st_size, found.st_mtime_ns

    def _read_known(self):
        try:
            return checksums.read_json(self._known_file)
        except (FileNotFoundError, ValueError):
            return {}
