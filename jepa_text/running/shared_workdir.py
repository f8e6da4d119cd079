"""Evaluation workdirs that several workers fill together, in a folder or at an address.

    bucket/exam/claims/     which worker computes what: claim_objects.py
    bucket/exam/results/    downloaded at the start and end, uploaded after each item

For an address each worker has a temporary local folder.
"""

import contextlib
import posixpath
import tempfile
from pathlib import Path

from jepa_text.files import addresses, transfer
from jepa_text.running import sync

CLAIMS = 'claims'


class Local:
    """A workdir on this machine, shared by all workers."""

    def __init__(self, folder):
        self.folder, self.name = folder, str(folder)
        self.claims = folder / CLAIMS

    def pull(self):
        """Does nothing: the folder already has everything."""

    push = pull


class Remote:
    """The temporary local copy of a workdir at an address."""

    def __init__(self, address, folder):
        self.folder, self.name = folder, address
        self.claims = f'{address}/{CLAIMS}'
        self._copy = sync.Copy(address, folder, lambda name: CLAIMS in Path(name).parts)

    def pull(self):
        """Downloads what other workers uploaded."""
        self._copy.download(transfer.list_files(self.name))

    def push(self):
        """Uploads what this worker made."""
        self._copy.upload()


@contextlib.contextmanager
def opened(place):
    """Yields a Local or Remote.

    Raises as addresses.location and addresses.with_retries do.
    """
    place = addresses.location('The workdir', place)
    if not addresses.is_address(place):
        yield Local(Path(place))
        return
    address = place.rstrip('/')
    with tempfile.TemporaryDirectory() as temporary:
        yield Remote(address, Path(temporary, posixpath.basename(address)))
