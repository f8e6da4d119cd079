"""A workdir that several workers fill together, here or at an address.

    bucket/exam/claims/     which worker is at what: claim_objects.py
    bucket/exam/results/    brought before the work and at its end, sent after each piece

At an address each worker has a folder of its own, which it deletes at the end.
"""

import contextlib
import posixpath
import tempfile
from pathlib import Path

from jepa_text.files import addresses, transfer
from jepa_text.running import sync

CLAIMS = 'claims'


class Here:
    """A workdir of this machine, which all workers see."""

    def __init__(self, folder):
        self.folder, self.name = folder, str(folder)
        self.claims = folder / CLAIMS

    def pull(self):
        """All is here."""

    push = pull


class Away:
    """The copy of a workdir at an address."""

    def __init__(self, address, folder):
        self.folder, self.name = folder, address
        self.claims = f'{address}/{CLAIMS}'
        self._copy = sync.Copy(address, folder, lambda name: CLAIMS in Path(name).parts)

    def pull(self):
        """Brings what other workers sent."""
        self._copy.bring(transfer.listed(self.name))

    def push(self):
        """Sends what this one made."""
        self._copy.send()


@contextlib.contextmanager
def opened(place):
    """A Here or an Away. Raises as addresses.place and
    addresses.patiently do."""
    place = addresses.place('The workdir', place)
    if not addresses.is_address(place):
        yield Here(Path(place))
        return
    address = place.rstrip('/')
    with tempfile.TemporaryDirectory() as temporary:
        yield Away(address, Path(temporary, posixpath.basename(address)))
