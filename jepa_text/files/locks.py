"""Advisory locks on open files, which the kernel releases when the process ends."""

import errno
import fcntl


def take(file, shared=False, wait=True):
    """Locks an open file, exclusively or `shared` with other shared locks.

    Returns False if the file system does not support locks, as some network file systems
    do not: then nothing is excluded. Raises BlockingIOError if another process holds the
    lock, unless `wait` is set.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP):
            raise
        return False
    return True
