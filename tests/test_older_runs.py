"""Runs of version 0.1: docs/upgrading.md says which still load, and what is refused."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from jepa_text import load

# A hybrid run of 12 steps, width 16, that version 0.1.0 trained, with its vectors.
RUN = Path(__file__).parent / 'references' / 'run_of_0.1.tar.gz'
TEXTS = ['One text.', 'Another text of State.']


@pytest.fixture
def older(tmp_path):
    """The folder of the run."""
    with tarfile.open(RUN) as archive:
        archive.extractall(tmp_path, filter='data')
    return tmp_path / 'run'


def test_a_run_of_0_1_loads_with_the_same_vectors(older):
    vectors_ND = load.load(str(older)).encode(TEXTS)
    np.testing.assert_allclose(vectors_ND, np.load(older / 'vectors.npy'), atol=1e-5)
