"""Runs of version 0.1: docs/upgrading.md says which still load, and what is refused."""

import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import tiny

from jepa_text.data import tokenizers
from jepa_text.pretrained import load

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


def test_a_loaded_model_is_saved_after_its_checkpoint_was_deleted(older, tmp_path):
    model = load.load(older)
    shutil.rmtree(older / 'checkpoints')
    model.save(tmp_path / 'kept')
    facts = load.load(tmp_path / 'kept').facts()
    assert [phase['objective']['name'] for phase in facts.history] == ['clm', 'hybrid']


@pytest.mark.slow
def test_a_run_of_0_1_is_refused_as_a_workdir_and_left_as_it_is(older, tmp_path):
    before = {*older.rglob('*'), older / 'lock'}
    with pytest.raises(ValueError) as refused:
        tiny.train(tiny.config(tmp_path), older)
    for words in ('The config has no key', 'docs/upgrading.md', 'finish it with'):
        assert words in str(refused.value)
    assert {*older.rglob('*')} == before


@pytest.mark.slow
def test_a_run_may_start_from_one_of_0_1(older, tmp_path):
    (tmp_path / 'text.txt').write_text('\n\n'.join(f'Text {i}.' for i in range(400)))
    tiny.rows(tmp_path, tokenizers.load(older / 'tokenizer.json'))
    config = tiny.config(
        tmp_path,
        steps=2,
        model={},
        init_from=dict(path=str(older)),
        phases=tiny.phases('mlm', tied=True),
    )
    assert tiny.train(config, tmp_path / 'new').step == 2
