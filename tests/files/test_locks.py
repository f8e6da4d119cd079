"""Locks: held while the file is open; unsupported file systems are reported."""

import errno
import fcntl

import pytest

from jepa_text.files import locks


def test_locks_are_exclusive_or_shared(tmp_path):
    path = tmp_path / 'lock'
    with path.open('wb') as one, path.open('ab') as two:
        assert locks.take(one)
        for shared in (False, True):
            with pytest.raises(BlockingIOError):
                locks.take(two, shared=shared, wait=False)
    with path.open('ab') as one, path.open('ab') as two:
        assert locks.take(one, shared=True) and locks.take(two, shared=True, wait=False)
        with pytest.raises(BlockingIOError):
            locks.take(two, wait=False)


@pytest.mark.parametrize('number', [errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_reported(tmp_path, monkeypatch, number):
    def fails(*_):
        raise OSError(number, 'no locks')

    monkeypatch.setattr(fcntl, 'flock', fails)
    with (tmp_path / 'lock').open('wb') as file:
        assert not locks.take(file)
        number = errno.EIO
        with pytest.raises(OSError, match='no locks'):
            locks.take(file)
