"""Binary input streams of local and remote files, plain or compressed.

A remote file is read by requests of a part of it, which are repeated if they fail, so
that the caller sees one continuous file.
"""

import gzip
import io
import lzma
import os
import resource
import zlib

from fsspec import spec

from jepa_text.files import addresses

BUFFER = 2**20  # bytes per request
PACKED = GZIP, ZSTD, XZ = '.gz', '.zst', '.xz'


def open_bytes(file, unpack=True):
    """Returns a buffered binary stream.

    `file` is a path, an address or an addresses.File; a remote file must still have the
    size and version of such a File. Files that end in .gz, .zst or .xz are decompressed
    unless `unpack` is False; other streams can be searched.

    Raises FileNotFoundError, PermissionError, ModuleNotFoundError. Reading raises
    ValueError if compressed data is damaged or truncated; addresses.AddressError if the
    content has changed since it was listed, or if the network keeps failing.
    """
    path = file.path if isinstance(file, addresses.File) else os.fspath(file)
    if addresses.is_address(path):
        stream = io.BufferedReader(_Remote(file), BUFFER)
    else:
        stream = open(path, 'rb', BUFFER)  # noqa: SIM115
    if unpack and addresses.ends_in(path, PACKED):
        return io.BufferedReader(_Unpacked(stream, path), BUFFER)
    return stream


def allow_open(count):
    """Lets this process have a number of files open beside those that it may have open
    now, as far as its hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft + count, hard), hard))


class _Unpacked(io.RawIOBase):
    """The decompressed content of a gzip, Zstandard or xz stream of some members."""

    def __init__(self, packed, path):
        self._packed, self._path = packed, path
        if not packed.peek(1):
            raise ValueError(
                f'{path} is empty, not a compressed file. Copy or download it again.'
            )
        if addresses.ends_in(path, GZIP):
            self._plain = gzip.GzipFile(fileobj=packed, mode='rb')
        elif addresses.ends_in(path, XZ):
            self._plain = lzma.LZMAFile(packed)  # noqa: SIM115
        else:
            import pyarrow

            self._plain = pyarrow.CompressedInputStream(packed, 'zstd')

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
            problem, remedy = 'damaged or truncated', 'Copy or download it again.'
            if 'too much memory' in str(error):
                problem = 'compressed with a longer window than can be read'
                remedy = 'Write it again: zstd -dc --long=31 OLD.zst | zstd > NEW.zst'
            raise ValueError(f'{self._path} is {problem} ({error}). {remedy}') from error
        buffer[: len(data)] = data
        return len(data)

    def close(self):
        self._plain.close()
        self._packed.close()
        super().close()


class _Remote(spec.AbstractBufferedFile):
    """A file at an address, which is requested in blocks."""

    def __init__(self, file):
        self._address = str(file)
        system, name = addresses.filesystem(self._address)
        now = addresses.stat(self._address)
        if now is None or now.size is None:
            raise ValueError(
                f'{self._address} is a folder, or its server does not report its size: '
                'give a file, and download it first from such a server.'
            )
        listed = getattr(file, 'version', None)
        if listed is not None and (now.size, now.version) != (file.size, listed):
            raise addresses.AddressError(
                f'{self._address} changed after it was listed: from {file!r} to {now!r}. '
                'Read it again when it is no longer being written.'
            )
        super().__init__(system, name, cache_type='none', size=now.size)

    def _fetch_range(self, start, end):
        end = min(end, self.size)
        blocks = range(start, end, BUFFER)
        return b''.join(self._block(at, min(at + BUFFER, end)) for at in blocks)

    def _block(self, start, end):
        def request():
            # By keyword: the second argument of s3fs is a version.
            block = self.fs.cat_file(self.path, start=start, end=end)
            if len(block) != end - start:
                raise ConnectionError(
                    f'received {len(block):,} bytes instead of {end - start:,}; the '
                    'server must support requests of a part of a file'
                )
            return block

        where = f'{self._address} from byte {start:,} on'
        return addresses.with_retries(where, request)
