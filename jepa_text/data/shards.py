"""Writing shards so that a full disk is said in words, and nothing stays in a cache."""

import contextlib
import errno
import os
import shutil

from array_record.python import array_record_module


def write_shard(path, records):
    """Writes records to an ArrayRecord file, each readable on its own."""
    with clear_disk_errors(path.parent):
        writer = array_record_module.ArrayRecordWriter(os.fspath(path), 'group_size:1')
        try:
            for record in records:
                writer.write(record)
        except BaseException:
            # A broken writer fails again when closed; the first error is the cause.
            with contextlib.suppress(RuntimeError):
                writer.close()
            raise
        writer.close()


def check_free_space(folder, needed):
    """Raises OSError when the disk of `folder` has fewer than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(
            errno.ENOSPC,
            f'The rows need up to {needed / 1e6:,.1f} MB, and the disk of '
            f'{folder.parent} has {free / 1e6:,.1f} MB free. Free some space, or name a '
            'folder on another disk. Nothing was left behind.',
        )


@contextlib.contextmanager
def clear_disk_errors(folder):
    """Turns a full disk, however it is reported, into an OSError that says so."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        # ArrayRecord reports by RuntimeError, with the system's words in it.
        full = (errno.ENOSPC, errno.EDQUOT)
        is_full = getattr(error, 'errno', None) in full or any(
            os.strerror(number) in str(error) for number in full
        )
        if not is_full:
            raise
        raise OSError(
            errno.ENOSPC,
            f'The disk of {folder.parent} was full while the rows were written '
            f'({error}). Free some space, or name a folder on another disk, and run the '
            'same command again. Nothing was left behind.',
        ) from error
