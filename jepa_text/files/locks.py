"""The kernel's locks of open files: they go when the process goes, by whatever death."""

import errno
import fcntl


def take(file, shared=False, wait=True):
    """Locks an open file for this process, or with `shared` for all that share it.

    False where the file system has no locks, as some of networks: there nobody is kept
    out. Raises BlockingIOError when another holds it, unless one is to `wait` for that.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP):
            raise
        return False
    return True
