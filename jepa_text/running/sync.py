"""The files of an address and their copy on this machine, of which each side gets what
has changed on the other."""

import json
import os
from pathlib import Path

from jepa_text.files import atomic, checksums, transfer

_KNOWN = 'known.json'


class Copy:
    """Files below an address, and a folder of them here; `left_out(name)` are none of its
    business.

    A file, `known` or known.json beside the folder, says which file here is which version
    there, so that nothing is brought twice.
    """

    def __init__(self, address, folder, left_out=lambda name: False, known=None):
        self.address, self.folder = address, folder
        self._notes = known or folder.parent / _KNOWN
        self._left_out = left_out
        self._equal = {}  # name: (size, time) of what is the same here and there

    def bring(self, there):
        """Makes the files here those of a listing; others stay."""
        self.folder.mkdir(parents=True, exist_ok=True)
        known = self._read_known()
        wanted = {name: file for name, file in there.items() if not self._left_out(name)}
        old = [
            name
            for name, file in wanted.items()
            if file.version is None
            or known.get(name) != [file.version, *self._stamp(name)]
        ]
        transfer.bring(self.address, self.folder, old)
        self._equal |= {name: self._stamp(name) for name in wanted}
        self.note(there)

    def send(self, wanted=lambda name: True):
        """Sends what has changed since it was brought or sent, the oldest first, of files
        that are `wanted`: their names."""
        changed = {n: stamp for n, stamp in self._changed().items() if wanted(n)}
        for name in sorted(changed, key=lambda name: changed[name][1]):
            # At once: a file such as the metrics may grow meanwhile.
            content = (self.folder / name).read_bytes()
            transfer.write(f'{self.address}/{name}', content)
            self._equal[name] = changed[name]
        return list(changed)

    def forget_others(self, there):
        """Deletes what is in no listing, and folders that are empty then."""
        for at, _, names in os.walk(self.folder, topdown=False):
            for name in names:
                path = Path(at, name)
                if path.relative_to(self.folder).as_posix() not in there:
                    path.unlink()
            if Path(at) != self.folder and not os.listdir(at):
                os.rmdir(at)

    def note(self, there, sent=None):
        """Writes down which versions of a listing are here: of all files, or of those
        that were `sent` just before it."""
        before = self._read_known()
        known = {} if sent is None else dict(before)
        known |= {
            name: [there[name].version, *self._equal[name]]
            for name in (there.keys() if sent is None else there.keys() & set(sent))
            if name in self._equal and there[name].size == self._equal[name][0]
        }
        if known != before:
            atomic.write(self._notes, json.dumps(known))

    def _changed(self):
        """{name: stamp} of what is to be sent."""
        stamps = {name: self._stamp(name) for name in self._names()}
        return {
            name: stamp
            for name, stamp in stamps.items()
            if stamp and self._equal.get(name) != stamp
        }

    def _names(self):
        """Of all files here that are to go there."""
        for at, _, names in os.walk(self.folder):
            for name in names:
                path = Path(at, name).relative_to(self.folder)
                hidden = any(part.startswith('.') for part in path.parts)
                if not (hidden or name.endswith('.tmp') or self._left_out(str(path))):
                    yield path.as_posix()

    def _stamp(self, name):
        """(size, time of the last change) of a file here; () of none."""
        try:
            found = (self.folder / name).stat()
        except FileNotFoundError:
            return ()
        return found.st_size, found.st_mtime_ns

    def _read_known(self):
        try:
            return checksums.read_json(self._notes)
        except (FileNotFoundError, ValueError):
            return {}
