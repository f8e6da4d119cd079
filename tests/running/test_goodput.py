"""Goodput across restarts."""

import pytest

from jepa_text.running import goodput


def test_the_first_start_is_stored(tmp_path):
    first = goodput.Goodput(tmp_path, now=lambda: 1000.0)
    assert first.share(0.0) == 0.0
    later = goodput.Goodput(tmp_path, now=lambda: 1100.0)
    assert later.share(25.0) == 0.25
    assert later.share(500.0) == 1.0


def test_a_damaged_file_raises(tmp_path):
    (tmp_path / goodput.FILE).write_text('{}')
    with pytest.raises(ValueError, match='started.json'):
        goodput.Goodput(tmp_path)
