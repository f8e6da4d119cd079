"""Writing of ArrayRecord shards, with clear errors if the disk is full."""

import contextlib
import errno
import os
import shutil

from array_record.python import array_record_module

from jepa_text.files import atomic


class Writer:
    """Writes records to an ArrayRecord file, each readable by itself.

    `rows` counts them. The file has a temporary name until `close` renames it.
    """

    def __init__(self, path):
        self._path, self.rows = path.with_name(f'.{path.name}'), 0
        with clear_disk_errors(path.parent):
            self._writer = array_record_module.ArrayRecordWriter(
                os.fspath(self._path), 'group_size:1'
            )

    def extend(self, records):
        with clear_disk_errors(self._path.parent):
            for record in records:
                self._writer.write(record)
                self.rows += 1

    def close(self, name):
        """Completes the file, flushes it to the disk, and renames it to `name`."""
        with clear_disk_errors(self._path.parent):
            writer, self._writer = self._writer, None
            writer.close()
            atomic.flush(self._path)
            os.replace(self._path, self._path.with_name(name))

    def abandon(self):
        """Deletes the file unless `close` has completed it."""
        if self._writer is not None:
            # A broken writer fails again when closed; the first error is the cause.
            with contextlib.suppress(RuntimeError):
                self._writer.close()
            self._writer = None
            self._path.unlink(missing_ok=True)


def check_free_space(folder, needed):
    """Raises OSError if the disk of `folder` has fewer than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(
            errno.ENOSPC,
            f'The rows need up to {needed / 1e6:,.1f} MB, but the disk of '
            f'{folder.parent} has {free / 1e6:,.1f} MB free. Free some space, or choose '
            'a folder on another disk.',
        )


@contextlib.contextmanager
def clear_disk_errors(folder):
    """Raises the errors of a full disk, of any type, as an OSError with a clear
    message."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        # ArrayRecord raises RuntimeError with the message of the system.
        full = (errno.ENOSPC, errno.EDQUOT)
        is_full = getattr(error, 'errno', None) in full or any(
            os.strerror(number) in str(error) for number in full
        )
        if not is_full:
            raise
        raise OSError(
            errno.ENOSPC,
            f'The disk of {folder.parent} is full: {folder.name} could not be written '
            f'({error}). Free some space, or choose a folder on another disk, and run '
            'the same command again.',
        ) from error
