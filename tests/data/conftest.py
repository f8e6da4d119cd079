"""Shared fixtures of the data tests."""

import pytest

from jepa_text.data.corpora import corpus


@pytest.fixture
def units_of(monkeypatch):
    """`units_of(2000)` divides corpora into units of about 2,000 bytes."""

    def call(size):
        monkeypatch.setattr(corpus, 'SMALLEST', size)
        monkeypatch.setattr(corpus, 'LARGEST', size)
        monkeypatch.setattr(corpus, 'WAITING', 2)

    return call
