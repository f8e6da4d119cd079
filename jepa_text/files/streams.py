"""Reading bytes: from this machine or an address, plain or packed, all or a part.

From an address, blocks are read ahead by a thread, and a connection that is cut is made
again at the byte it had reached, with smaller blocks: the caller sees one file.
"""

import concurrent.futures
import contextlib
import gzip
import io
import os
import tempfile
import threading
import zlib

from jepa_text.files import addresses

# Bytes a request: twice as many after each success, half after a failure.
SMALLEST, FIRST, LARGEST = 2**16, 2**18, 2**23
GZIP, ZSTD = ('.gz', '.gzip'), ('.zst', '.zstd')


def open_bytes(file, start=0, stop=None, unpack=True):
    """A buffered binary stream of what a file holds from byte `start` to before `stop`.

    `file` is a path, an address or an addresses.File, whose size and version must then
    still be those at the address. What ends in .gz or .zst is unpacked, and wanted whole,
    but with `unpack` False.
    Raises ValueError for a part of a packed file and, while one reads, for packed data
    that is damaged or cut; FileNotFoundError, PermissionError, ModuleNotFoundError;
    addresses.ChangedError when the content changed since; addresses.AddressError once the
    network has failed addresses.RETRIES times in a row.
    """
    path = file.path if isinstance(file, addresses.File) else os.fspath(file)
    ending = path.lower()
    packed = unpack and ending.endswith(GZIP + ZSTD)
    if packed and (start or stop is not None):
        raise ValueError(f'{path} is packed, so no part of it can be read alone.')
    if addresses.is_address(path):
        raw = _Away(file if isinstance(file, addresses.File) else path, start, stop)
    elif start or stop is not None:
        raw = _Part(_Here(path), start, stop)
    else:
        raw = _Here(path)
    stream = io.BufferedReader(raw, FIRST)
    if not packed:
        return stream
    return io.BufferedReader(_Unpacked(stream, path), FIRST)


def unread(error, where):
    """An error of the system, with what could not be read and the remedy in it."""
    return OSError(
        error.errno,
        f'{error.strerror}: {where} cannot be read. Look after the disk or share that it '
        'is on, and run the same command again.',
    )


class _Here(io.FileIO):
    """A file of this machine, whose errors say which it is."""

    def readinto(self, buffer):
        try:
            return super().readinto(buffer)
        except OSError as error:
            raise unread(error, f'{self.name}, from byte {self.tell():,} on,') from error


class _Part(io.RawIOBase):
    """Bytes `start` to before `stop` of a file."""

    def __init__(self, file, start, stop):
        self._file, self._left = file, None if stop is None else max(0, stop - start)
        file.seek(start)

    def readable(self):
        return True

    def readinto(self, buffer):
        wanted = len(buffer) if self._left is None else min(len(buffer), self._left)
        count = self._file.readinto(memoryview(buffer)[:wanted])
        if self._left is not None:
            self._left -= count
        return count

    def close(self):
        self._file.close()
        super().close()


class _Unpacked(io.RawIOBase):
    """What a stream in gzip's or Zstandard's format holds, of one part or several."""

    def __init__(self, packed, path):
        self._packed, self._path = packed, path
        if not packed.peek(1):
            raise ValueError(f'{path} is empty, not a packed file. Copy it again.')
        if path.lower().endswith(GZIP):
            self._plain, self._kind = gzip.GzipFile(fileobj=packed, mode='rb'), 'gzip'
        else:
            import pyarrow

            self._plain, self._kind = (
                pyarrow.CompressedInputStream(packed, 'zstd'),
                'zstd',
            )

    def readable(self):
        return True

    def readinto(self, buffer):
        try:
            data = self._plain.read(len(buffer))
        except (EOFError, zlib.error, OSError) as error:
            # Of bad bytes, Arrow says OSError; the system's have a number, and those of
            # an address are of other types.
            of_bytes = not isinstance(error, OSError) or (
                type(error) in (OSError, gzip.BadGzipFile) and error.errno is None
            )
            if not of_bytes:
                raise
            raise ValueError(
                f'{self._path} is a damaged or cut {self._kind} file ({error}). Copy or '
                f'download it again; `{self._kind} -t` tests it.'
            ) from error
        buffer[: len(data)] = data
        return len(data)

    def close(self):
        self._plain.close()
        self._packed.close()
        super().close()


class _Away(io.RawIOBase):
    """A file at an address, with seek; `start` and `stop` bound it."""

    def __init__(self, file, start, stop):
        known = isinstance(file, addresses.File)
        self._path = file.path if known else file
        self._system, self._name = addresses.filesystem(self._path, known)
        self._file = file if known else self._state()
        self._handle = self._whole = self._ahead = None
        self._closing = threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        if self._file.size is None:
            self._whole, size = self._pool.submit(self._fetch_whole).result()
        else:
            size = self._file.size
        self._start, self._stop = start, size if stop is None else min(stop, size)
        self._at, self._length, self._block = start, FIRST, b''
        fixed = addresses.is_fixed(self._path)
        self._fresh, self._checked = fixed or not known, fixed

    def _state(self):
        found = addresses.stated(self._path)
        if found is None:
            raise IsADirectoryError(f'{self._path} is a folder, not a file.')
        return found

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self._at - self._start

    def seek(self, offset, whence=io.SEEK_SET):
        base = {0: self._start, 1: self._at, 2: self._stop}[whence]
        at = max(self._start, base + offset)
        if at != self._at:
            self._at, self._block, self._length = at, b'', FIRST
        return at - self._start

    def readinto(self, buffer):
        if not self._block:
            self._block = memoryview(self._next())
        count = min(len(buffer), len(self._block))
        buffer[:count] = self._block[:count]
        self._block = self._block[count:]
        self._at += count
        return count

    def _next(self):
        """The block at the place reached; the one after it is asked for meanwhile."""
        if self._at >= self._stop:
            self._end()
            return b''
        ahead, self._ahead = self._ahead, None
        if ahead and ahead[0] == self._at:
            block = ahead[1].result()
        else:
            block = self._pool.submit(self._fetch, self._at).result()
        if self._at + len(block) < self._stop:
            following = self._at + len(block)
            self._ahead = following, self._pool.submit(self._fetch, following)
        return block

    def _end(self):
        """After the last byte: is it still the file of the first?"""
        if not self._checked:
            self._pool.submit(self._check).result()
            self._checked = True

    def _check(self):
        now = self._state()
        before = self._file
        if (now.size, now.version) != (before.size, before.version):
            raise addresses.ChangedError(
                f'{self._path} changed while it was read: it had {before.size} bytes of '
                f'version {before.version}, and has {now.size} of {now.version}. Read it '
                'again when nobody writes it.'
            )

    def _fetch(self, at):
        """Bytes from `at` on, some; the thread of the pool alone calls it."""
        if self._whole:
            self._whole.seek(at)
            return self._whole.read(min(LARGEST, self._stop - at))

        def ask():
            wanted = min(self._length, self._stop - at)
            try:
                if self._handle is None:
                    self._handle = self._opened()
                self._handle.seek(at)
                block = self._handle.read(wanted)
                if len(block) != wanted:
                    raise ConnectionError(f'{len(block)} bytes came of {wanted}')
            except BaseException:
                self._handle, self._length = None, max(SMALLEST, self._length // 2)
                raise
            self._length = min(LARGEST, self._length * 2)
            return block

        try:
            where = f'{self._path}, from byte {at:,} on,'
            return addresses.patiently(where, ask, self._closing.wait)
        except ValueError as error:
            # So says fsspec of a server that sends all whatever part is asked for.
            if 'range requests' not in str(error):
                raise
            self._whole, _ = self._fetch_whole()
            return self._fetch(at)

    def _opened(self):
        if not self._fresh:
            self._check()
        self._fresh = addresses.is_fixed(self._path)
        return self._system.open(self._name, 'rb', cache_type='none', block_size=FIRST)

    def _fetch_whole(self):
        """(A temporary file of all, its size): of servers that tell no size or know no
        parts. A connection that is cut begins anew."""
        with contextlib.ExitStack() as stack:
            whole = stack.enter_context(tempfile.TemporaryFile())

            def ask():
                whole.seek(0)
                whole.truncate()
                self._system.get_file(self._name, whole)

            addresses.patiently(self._path, ask, self._closing.wait)
            size = whole.seek(0, io.SEEK_END)
            stack.pop_all()
        return whole, size

    def close(self):
        if not self.closed and hasattr(self, '_pool'):
            self._closing.set()
            self._pool.shutdown(wait=False, cancel_futures=True)
            if self._whole:
                self._whole.close()
        super().close()
