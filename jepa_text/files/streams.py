"""Binary input streams of local and remote files: plain or compressed, whole or ranges.

A remote file is read by requests of some megabytes. One that fails is repeated with fewer
bytes, so that the caller sees one continuous file whatever breaks.
"""

import gzip
import io
import lzma
import os
import zlib

from jepa_text.files import addresses

# Bytes per request: doubled after each success, halved after a failure.
SMALLEST, LARGEST = 2**16, 2**23
BUFFER = 2**20
GZIP, ZSTD, XZ = ('.gz', '.gzip'), ('.zst', '.zstd'), ('.xz',)
PACKED = GZIP + ZSTD + XZ


def open_bytes(file, start=0, stop=None, unpack=True):
    """Returns a buffered binary stream of the bytes `start` to `stop` (exclusive).

    `file` is a path, an address or an addresses.File. The remote file must still have the
    size and version of such a File. Files that end in .gz, .zst or .xz are decompressed
    unless `unpack` is False; only the whole of such a file can be read.

    Raises ValueError for a range of a compressed file; FileNotFoundError,
    PermissionError, ModuleNotFoundError. Reading raises ValueError if compressed data is
    damaged or truncated; addresses.AddressError if the content has changed, or if the
    network keeps failing.
    """
    path = file.path if isinstance(file, addresses.File) else os.fspath(file)
    is_packed = unpack and path.lower().endswith(PACKED)
    if is_packed and (start or stop is not None):
        raise ValueError(f'{path} is compressed: only the whole file can be read.')
    is_remote = addresses.is_address(path)
    raw = _Remote(file, start, stop) if is_remote else _Local(path, start, stop)
    stream = io.BufferedReader(raw, BUFFER)
    return io.BufferedReader(_Unpacked(stream, path), BUFFER) if is_packed else stream


def read_error(error, where):
    """Returns an OSError with a remedy, made from an OSError of reading `where`."""
    return OSError(
        error.errno,
        f'{error.strerror}: cannot read {where}. Check the disk or network share that it '
        'is on, and run the same command again.',
    )


class _Local(io.FileIO):
    """A local file up to byte `stop`, whose read errors name the file and the
    position."""

    # FileIO has its own, which know nothing of `stop`.
    read, readall = io.RawIOBase.read, io.RawIOBase.readall

    def __init__(self, path, start, stop):
        super().__init__(path)
        self._stop = stop
        self.seek(start)

    def readinto(self, buffer):
        if self._stop is not None:
            buffer = memoryview(buffer)[: max(0, self._stop - self.tell())]
        try:
            return super().readinto(buffer)
        except OSError as error:
            where = f'{self.name} from byte {self.tell():,} on'
            raise read_error(error, where) from error


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
    """The bytes `start` to `stop` of a file at an address."""

    def __init__(self, file, start, stop):
        self._path, self._at = str(file), start
        self._system, self._name = addresses.filesystem(self._path)
        self._file = addresses.stat(self._path)
        if self._file is None or self._file.size is None:
            raise ValueError(
                f'{self._path} is a folder, or its server does not report its size: give '
                'a file, and download it first from such a server.'
            )
        if getattr(file, 'version', None) is not None:
            self._check_unchanged(file, self._file)
        self._stop = self._file.size if stop is None else min(stop, self._file.size)
        self._length, self._is_checked = 4 * SMALLEST, False

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self._at

    def seek(self, offset, whence=io.SEEK_SET):
        self._at = max(0, (0, self._at, self._stop)[whence] + offset)
        return self._at

    def readall(self):
        return b''.join(iter(lambda: self.read(LARGEST), b''))

    def readinto(self, buffer):
        count = min(len(buffer), self._stop - self._at)
        if count <= 0:
            # Once after the last byte: the file must not have changed since the first.
            if not self._is_checked:
                self._check_unchanged(self._file, addresses.stat(self._path))
                self._is_checked = True
            return 0
        block = self._fetch(count)
        buffer[: len(block)] = block
        self._at += len(block)
        return len(block)

    def _fetch(self, count):
        """Returns at most `count` bytes, at least one, from the current position on."""

        def request():
            wanted = min(count, self._length)
            # Unless it succeeds.
            self._length = max(SMALLEST, self._length // 2)
            # By keyword: the second argument of s3fs is a version.
            end = self._at + wanted
            block = self._system.cat_file(self._name, start=self._at, end=end)
            if len(block) > wanted:
                raise ValueError(
                    f'The server of {self._path} does not support requests of a part of '
                    'a file: download it first.'
                )
            if len(block) < wanted:
                raise ConnectionError(f'received {len(block)} of {wanted} bytes')
            self._length = min(LARGEST, 4 * self._length)
            return block

        where = f'{self._path} from byte {self._at:,} on'
        return addresses.with_retries(where, request)

    def _check_unchanged(self, before, now):
        if now is None or (now.size, now.version) != (before.size, before.version):
            raise addresses.AddressError(
                f'{self._path} changed while it was read: from {before!r} to {now!r}. '
                'Read it again when it is no longer being written.'
            )
