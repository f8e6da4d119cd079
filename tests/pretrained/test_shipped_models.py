"""Models that the package ships: exported in float16, and loaded by their names."""

import dataclasses
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_hf_sentence import TEXTS, trained

import jepa_text as jt
from jepa_text import main
from jepa_text.hf import files
from jepa_text.pretrained import export, load

pytestmark = pytest.mark.filterwarnings('ignore:.*are longer than:UserWarning')


def small():
    """A model like configs/small.py."""
    return trained('mlm', qk_norm=True, scan=False)


@pytest.fixture(scope='module')
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp('exported') / 'mini'
    export.write(small(), folder, dtype='float16')
    return folder


@pytest.fixture
def shipped(exported, tmp_path, monkeypatch):
    """The folder of a model that is shipped as 'mini'; the current folder is empty."""
    monkeypatch.setattr(files, 'SHIPPED', tmp_path / 'shipped')
    (tmp_path / 'here').mkdir()
    monkeypatch.chdir(tmp_path / 'here')
    return shutil.copytree(exported, tmp_path / 'shipped' / 'mini')


def test_a_name_loads_the_model_in_float32(shipped, tmp_path, capsys):
    model = jt.load('mini')
    assert {leaf.dtype for leaf in jax.tree.leaves(model.params)} == {
        jnp.dtype('float32')
    }
    for name in (f'hf:{shipped}', 'hf:mini'):
        jax.tree.map(assert_array_equal, model.params, jt.load(name).params)
    assert len(model.fill('It is <mask>.', top=3)[0]) == 3
    assert load.outline('mini').network.encoder == model.network.encoder
    assert load.fingerprint('mini') == load.fingerprint(f'hf:{shipped}')
    given = ['export', '--workdir=mini', f'--to={tmp_path / "out"}', '--dtype=float16']
    assert main.main(['jepa-text', *given]) == 0
    assert (tmp_path / 'out' / files.SINGLE).read_bytes() == (
        shipped / files.SINGLE
    ).read_bytes()
    assert 'Qwen3ForCausalLM' in capsys.readouterr().out


def test_a_folder_of_the_name_comes_first_and_others_are_named(shipped, tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r'minny contains no .* shipped .*\(mini\)'
    ):
        jt.load('minny')
    (tmp_path / 'here' / 'mini').mkdir()
    with pytest.raises(FileNotFoundError, match='mini contains no config.json'):
        jt.load('mini')


def test_float16_costs_half_and_little_accuracy(shipped, tmp_path):
    """Vectors are off by less than a thousandth of their length; the rounded model is
    exported to the bit. Measured: 6.5e-4."""
    export.write(small(), tmp_path / 'whole')
    sizes = [
        (path / files.SINGLE).stat().st_size for path in (shipped, tmp_path / 'whole')
    ]
    assert sizes[0] < 0.52 * sizes[1]
    exact_ND, rounded_ND = small().encode(TEXTS), jt.load('mini').encode(TEXTS)
    off_N = np.linalg.norm(rounded_ND - exact_ND, axis=1)
    shares_N = off_N / np.linalg.norm(exact_ND, axis=1)
    assert 0 < shares_N.max() < 1e-3
    rounded = jax.tree.map(
        lambda x: x.astype('float16').astype('float32'), small().params
    )
    expected = dataclasses.replace(small(), params=rounded).encode(TEXTS)
    assert_allclose(rounded_ND, expected, atol=1e-5)
    with pytest.raises(ValueError, match="dtype='int8'.*float16"):
        export.write(small(), tmp_path / 'no', dtype='int8')


@pytest.mark.peer
def test_transformers_and_sentence_transformers_give_its_vectors(shipped):
    transformers = pytest.importorskip('transformers')
    library = pytest.importorskip('sentence_transformers')
    model = jt.load('mini')
    other = library.SentenceTransformer(str(shipped), device='cpu')
    assert_allclose(other.encode(TEXTS), model.encode(TEXTS), atol=1e-5)
    encoder = transformers.AutoModel.from_pretrained(shipped)
    assert str(encoder.dtype) == 'torch.float32'
    tokenizer = transformers.AutoTokenizer.from_pretrained(shipped)
    hidden = encoder(**tokenizer(TEXTS[1], return_tensors='pt')).last_hidden_state
    pooled_D = hidden.mean(1)[0].detach().numpy()
    assert_allclose(pooled_D, model.encode(TEXTS[1]), atol=1e-5)
