"""Binary input streams of local and remote files: plain or compressed, whole or ranges.

Blocks of remote files are prefetched by a thread. A broken connection is reopened at the
byte it had reached, with smaller blocks, so that the caller sees one continuous file.
"""

import concurrent.futures
import contextlib
import gzip
import io
import lzma
import os
import tempfile
import threading
import zlib

from jepa_text.files import addresses

# Bytes per request: doubled after each success, halved after a failure.
SMALLEST, FIRST, LARGEST = 2**16, 2**18, 2**23
GZIP, ZSTD, XZ = ('.gz', '.gzip'), ('.zst', '.zstd'), ('.xz',)
PACKED = GZIP + ZSTD + XZ


def open_bytes(file, start=0, stop=None, unpack=True):
    """Returns a buffered binary stream of the bytes `start` to `stop` (exclusive).

    `file` is a path, an address or an addresses.File. The remote file must still have the
    size and version of such a File. Files that end in .gz, .zst or .xz are decompressed
    unless `unpack` is False; only the whole of such a file can be read.

    Raises ValueError for a range of a compressed file; FileNotFoundError,
    PermissionError, ModuleNotFoundError. Reading raises ValueError if compressed data is
    damaged or truncated; addresses.ChangedError if the content has changed;
    addresses.AddressError after addresses.RETRIES consecutive network failures.
    """
    path = file.path if isinstance(file, addresses.File) else os.fspath(file)
    is_packed = unpack and path.lower().endswith(PACKED)
    if is_packed and (start or stop is not None):
        raise ValueError(f'{path} is compressed: only the whole file can be read.')
    if addresses.is_address(path):
        raw = _Remote(file if isinstance(file, addresses.File) else path, start, stop)
    elif start or stop is not None:
        raw = _Range(_Local(path), start, stop)
    else:
        raw = _Local(path)
    stream = io.BufferedReader(raw, FIRST)
    if not is_packed:
        return stream
    return io.BufferedReader(_Unpacked(stream, path), FIRST)


def read_error(error, where):
    """Returns an OSError with a remedy, made from an OSError of reading `where`."""
    return OSError(
        error.errno,
        f'{error.strerror}: cannot read {where}. Check the disk or network share that it '
        'is on, and run the same command again.',
    )


class _Local(io.FileIO):
    """A local file whose read errors name the file and the position."""

    def readinto(self, buffer):
        try:
            return super().readinto(buffer)
        except OSError as error:
            where = f'{self.name} from byte {self.tell():,} on'
            raise read_error(error, where) from error


class _Range(io.RawIOBase):
    """The bytes `start` to `stop` (exclusive) of a file."""

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
    """The decompressed content of a gzip, Zstandard or xz stream of some members."""

    def __init__(self, packed, path):
        self._packed, self._path = packed, path
        if not packed.peek(1):
            raise ValueError(
                f'{path} is empty, not a compressed file. Copy or download it again.'
            )
        if path.lower().endswith(GZIP):
            self._plain, self._kind = gzip.GzipFile(fileobj=packed, mode='rb'), 'gzip'
        elif path.lower().endswith(XZ):
            self._plain, self._kind = lzma.LZMAFile(packed), 'xz'  # noqa: SIM115
        else:
            import pyarrow

            self._plain = pyarrow.CompressedInputStream(packed, 'zstd')
            self._kind = 'zstd'

    def readable(self):
        return True

    def readinto(self, buffer):
        try:
            data = self._plain.read(len(buffer))
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            # Arrow raises OSError for invalid data. OSErrors of the system have an errno,
            # and those of an address are subclasses.
            is_data_error = not isinstance(error, OSError) or (
                type(error) in (OSError, gzip.BadGzipFile) and error.errno is None
            )
            if not is_data_error:
                raise
            raise ValueError(
                f'{self._path} is a damaged or truncated {self._kind} file ({error}). '
                f'Copy or download it again; `{self._kind} -t` tests it.'
            ) from error
        buffer[: len(data)] = data
        return len(data)

    def close(self):
        self._plain.close()
        self._packed.close()
        super().close()


class _Remote(io.RawIOBase):
    """A seekable file at an address, limited to the bytes `start` to `stop`."""

    def __init__(self, file, start, stop):
        is_listed = isinstance(file, addresses.File)
        self._path = file.path if is_listed else file
        self._system, self._name = addresses.filesystem(self._path, is_listed)
        self._file = file if is_listed else self._stat()
        # An open connection; a temporary file of everything; (position, prefetched
        # block).
        self._handle = self._whole = self._ahead = None
        self._closing = threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        if self._file.size is None:
            self._whole, size = self._pool.submit(self._fetch_whole).result()
        else:
            size = self._file.size
        self._start, self._stop = start, size if stop is None else min(stop, size)
        self._at, self._length, self._block = start, FIRST, b''
        is_fixed = addresses.is_fixed(self._path)
        # Whether the version is known to be current before opening, and after the end.
        self._is_fresh, self._is_checked = is_fixed or not is_listed, is_fixed

    def _stat(self):
        file = addresses.stat(self._path)
        if file is None:
            raise IsADirectoryError(f'{self._path} is a folder, not a file.')
        return file

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
        """Returns the block at the current position, and prefetches the following one."""
        if self._at >= self._stop:
            self._check_at_end()
            return b''
        ahead, self._ahead = self._ahead, None
        if ahead and ahead[0] == self._at:
            block = ahead[1].result()
        else:
            block = self._pool.submit(self._fetch, self._at).result()
        following = self._at + len(block)
        if following < self._stop:
            self._ahead = following, self._pool.submit(self._fetch, following)
        return block

    def _check_at_end(self):
        """Checks, after the last byte, that the file did not change since the first."""
        if not self._is_checked:
            self._pool.submit(self._check).result()
            self._is_checked = True

    def _check(self):
        now, before = self._stat(), self._file
        if (now.size, now.version) != (before.size, before.version):
            raise addresses.ChangedError(
                f'{self._path} changed while it was read: from {before.size} bytes and '
                f'version {before.version} to {now.size} bytes and version '
                f'{now.version}. Read it again when it is no longer being written.'
            )

    def _fetch(self, at):
        """Returns some bytes from position `at` on. Only called in the pool's thread."""
        if self._whole:
            self._whole.seek(at)
            return self._whole.read(min(LARGEST, self._stop - at))

        def request():
            wanted = min(self._length, self._stop - at)
            try:
                if self._handle is None:
                    self._handle = self._open()
                self._handle.seek(at)
                block = self._handle.read(wanted)
                if len(block) != wanted:
                    raise ConnectionError(f'received {len(block)} of {wanted} bytes')
            except BaseException:
                self._handle, self._length = None, max(SMALLEST, self._length // 2)
                raise
            self._length = min(LARGEST, self._length * 2)
            return block

        try:
            where = f'{self._path} from byte {at:,} on'
            return addresses.with_retries(where, request, self._closing.wait)
        except ValueError as error:
            # fsspec raises this for a server that ignores the requested range.
            if 'range requests' not in str(error):
                raise
            self._whole, _ = self._fetch_whole()
            return self._fetch(at)

    def _open(self):
        if not self._is_fresh:
            self._check()
        # If the connection is reopened, the version has to be checked again.
        self._is_fresh = addresses.is_fixed(self._path)
        return self._system.open(self._name, 'rb', cache_type='none', block_size=FIRST)

    def _fetch_whole(self):
        """Downloads the whole file; returns (temporary file, size).

        For servers that report no size or support no range requests. After a broken
        connection the download starts over.
        """
        with contextlib.ExitStack() as stack:
            whole = stack.enter_context(tempfile.TemporaryFile())

            def request():
                whole.seek(0)
                whole.truncate()
                self._system.get_file(self._name, whole)

            addresses.with_retries(self._path, request, self._closing.wait)
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
