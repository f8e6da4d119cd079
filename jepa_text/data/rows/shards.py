"""Writing shards so that a full disk is said in words, and nothing stays in a cache."""

import contextlib
import errno
import os
import shutil

from array_record.python import array_record_module

from jepa_text.files import atomic


class Writer:
    """Writes records to an ArrayRecord file, each readable on its own.

    `rows` counts them. The file has no name of its own until `close` gives it one.
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
        """Ends the file, brings it to the disk, and calls it `name`."""
        with clear_disk_errors(self._path.parent):
            writer, self._writer = self._writer, None
            writer.close()
            atomic.flush(self._path)
            os.replace(self._path, self._path.with_name(name))

    def abandon(self):
        """Ends the file if `close` did not; what was written counts for nothing."""
        if self._writer is not None:
            # A broken writer fails again when closed; the first error is the cause.
            with contextlib.suppress(RuntimeError):
                self._writer.close()
            self._writer = None
            self._path.unlink(missing_ok=True)


def check_free_space(folder, needed):
    """Raises OSError when the disk of `folder` has fewer than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(
            errno.ENOSPC,
            f'The rows need up to {needed / 1e6:,.1f} MB, and the disk of '
            f'{folder.parent} has {free / 1e6:,.1f} MB free. Free some space, or name a '
            'folder on another disk.',
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
            'same command again.',
        ) from error
