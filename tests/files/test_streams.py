"""Streams return the exact bytes despite network failures, or raise an error."""

import gzip
import io
import lzma
import random

import fsspec
import pyarrow
import pytest
from fsspec.implementations import memory
from hypothesis import given, settings
from hypothesis import strategies as st

from jepa_text.files import addresses, streams

DATA = random.Random(0).randbytes(3_000_000)
ADDRESS = 'torn://shelf/data.bin'


class Torn(memory.MemoryFileSystem):
    """A file system whose connections break after a random number of bytes."""

    protocol, store, pseudo_dirs = 'torn', {}, ['']
    cachable = False
    asked, longest, random = [], 10**9, random.Random(0)

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix('torn://'))

    def cat_file(self, path, start=None, end=None):
        limit = self.random.randrange(self.longest)
        self.asked.append((start, end - start, limit >= end - start))
        if limit < end - start:
            raise ConnectionResetError(f'cut after {limit} of {end - start} bytes')
        return super().cat_file(path, start, end)


@pytest.fixture(autouse=True)
def torn(monkeypatch):
    monkeypatch.setattr(addresses, 'PAUSES', (0,) * 20)
    monkeypatch.setattr(addresses, 'REPEATED', ('torn',))
    monkeypatch.setattr(streams, 'BUFFER', 2**16)
    fsspec.register_implementation('torn', Torn, clobber=True)
    Torn.store.clear()
    Torn.asked.clear()
    Torn.longest, Torn.random = 10**9, random.Random(0)
    Torn().pipe_file('/shelf/data.bin', DATA)
    return Torn


def test_broken_connections_give_the_same_bytes(torn):
    torn.longest = 200_000
    with streams.open_bytes(ADDRESS) as stream:
        assert stream.read() == DATA
    # Bytes that were received are not requested again.
    reached = 0
    for at, count, arrived in torn.asked:
        assert at == reached
        reached += count * arrived
    assert reached == len(DATA)
    assert [arrived for *_, arrived in torn.asked].count(False) > 2


def test_a_permanent_network_failure_is_reported(torn):
    torn.longest = 1
    with pytest.raises(addresses.AddressError, match='from byte 0 on could not be read'):
        streams.open_bytes(ADDRESS).read()
    assert len(torn.asked) == len(addresses.PAUSES) + 1


def test_a_listed_file_must_be_unchanged(torn):
    listed = addresses.stat(ADDRESS)
    with streams.open_bytes(listed) as stream:
        assert stream.read() == DATA
    torn().pipe_file('/shelf/data.bin', DATA[::-1])
    with pytest.raises(addresses.AddressError, match='changed after it was listed'):
        streams.open_bytes(listed)


def test_a_file_deleted_while_reading_is_reported(torn):
    stream = streams.open_bytes(ADDRESS)
    stream.read(10)
    torn.store.clear()
    with pytest.raises(FileNotFoundError, match='torn:.* does not exist'):
        stream.read()


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just('read'), st.integers(0, 400_000)),
            st.tuples(st.just('seek'), st.integers(0, len(DATA))),
            st.tuples(st.just('end'), st.integers(-len(DATA), 0)),
        ),
        max_size=8,
    )
)
@settings(max_examples=25, deadline=None)
def test_seeking_works_as_in_a_local_file(steps):
    Torn.longest = 2_000_000
    expected = io.BytesIO(DATA)
    with streams.open_bytes(ADDRESS) as stream:
        for what, number in steps:
            if what == 'read':
                assert stream.read(number) == expected.read(number)
            else:
                where = (number, io.SEEK_SET if what == 'seek' else io.SEEK_END)
                assert stream.seek(*where) == expected.seek(*where)


def zstd(data):
    return pyarrow.compress(data, codec='zstd', asbytes=True)


PACKED = {'gz': gzip.compress, 'zst': zstd, 'xz': lzma.compress}


@pytest.fixture(params=['here', 'away'])
def put(request, tmp_path):
    """Writes a file and returns its path or address."""

    def put(name, data):
        if request.param == 'here':
            (tmp_path / name).write_bytes(data)
            return tmp_path / name
        Torn().pipe_file(f'/shelf/{name}', data)
        return f'torn://shelf/{name}'

    return put


@pytest.mark.parametrize('ending', PACKED)
def test_compressed_files_are_decompressed(put, ending):
    pack = PACKED[ending]
    text = b''.join(b'line %d\n' % n for n in range(50_000))
    # Of several members, as `cat a.gz b.gz` makes them.
    path = put(f'a.{ending}', pack(text[:100_000]) + pack(text[100_000:]))
    with streams.open_bytes(path) as stream:
        assert stream.readline() == b'line 0\n'
        assert stream.read() == text[7:]


@pytest.mark.parametrize('ending', PACKED)
@pytest.mark.parametrize('damage', ['cut', 'flipped', 'empty', 'other'])
def test_damaged_compressed_files_are_reported(put, ending, damage):
    whole = PACKED[ending](DATA[:200_000])
    flipped = bytearray(whole)
    flipped[5 if ending == 'zst' else len(whole) - 6] ^= 0xFF
    made = {'cut': whole[:-3], 'flipped': flipped, 'empty': b'', 'other': b'plain text'}
    path = put(f'bad.{ending}', bytes(made[damage]))
    with pytest.raises(ValueError, match=rf'bad\.{ending} is '):
        streams.open_bytes(path).read()


def test_a_window_that_is_too_long_is_not_damage(put):
    """As `zstd --long=31` makes it: a header with the exponent of the window, 10 + 21,
    and one block of three bytes as they are, the last."""
    frame = b'\x28\xb5\x2f\xfd\x00' + bytes([21 << 3, 3 << 3 | 1, 0, 0]) + b'abc'
    with pytest.raises(ValueError, match=r'longer window .* zstd -dc --long=31'):
        streams.open_bytes(put('a.zst', frame)).read()
    shorter = frame.replace(bytes([21 << 3]), bytes([5 << 3]))
    assert streams.open_bytes(put('b.zst', shorter)).read() == b'abc'


def test_network_failures_are_not_damage(torn):
    torn().pipe_file('/shelf/x.gz', gzip.compress(DATA))
    torn.longest = 1
    with pytest.raises(addresses.AddressError, match='could not be read'):
        streams.open_bytes('torn://shelf/x.gz').read()
