"""Checksums of files and values."""

import hashlib

from jepa_text.files import checksums


def test_checksums_identify_files_and_values(tmp_path):
    path = tmp_path / 'data'
    path.write_bytes(bytes(range(256)) * 40)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert checksums.file_entry(path) == {'bytes': 10240, 'sha256': digest}
    assert checksums.checksum({'a': 1, 'b': [2]}) == checksums.checksum(
        {'b': [2], 'a': 1}
    )
    assert checksums.checksum({'a': 1}) != checksums.checksum({'a': 2})
