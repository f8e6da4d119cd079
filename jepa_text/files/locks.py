"""Advisory locks on open files, which the kernel releases when the process ends."""

import contextlib
import errno
import fcntl
import logging
import os
import socket

_log = logging.getLogger(__name__)


def take(file, wait=True):
    """Locks an open file, until it is closed or the process ends.

    Raises BlockingIOError if another process holds the lock, unless `wait` is set. Warns
    if the file system does not support locks, as some network file systems do not: then
    nothing is excluded.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP):
            raise
        _log.warning(
            'The file system of %s does not support locks: make sure that no second '
            'process works in this folder.',
            file.name,
        )


def myself():
    """The name of this process."""
    return f'process {os.getpid()} on {socket.gethostname()}'


@contextlib.contextmanager
def held(path, what):
    """Holds the lock of a file that names its holder, for `what`, such as a workdir.

    Raises RuntimeError, with the name of the holder, if another process holds it. The
    file stays: after a removal, a second process could lock a new file of that name while
    the first holds the removed one.
    """
    with open(path, 'a+', encoding='utf-8') as file:
        try:
            take(file, wait=False)
        except BlockingIOError:
            file.seek(0)
            raise in_use(what, file.read()) from None
        file.truncate(0)
        file.write(myself())
        file.flush()
        yield


def in_use(what, holder):
    """The RuntimeError for `what` is held by a process of this name."""
    own = ' It is this very process: end the first run before starting another.'
    return RuntimeError(
        f'{what} is in use by {holder.strip() or "another process"}; two in one folder '
        'would corrupt each other. Wait for it or stop it, or give another --workdir.'
        f'{own if holder == myself() else ""}'
    )
