"""Models on the hub: pushed to a local stand-in, and loaded from there."""

import sys
import textwrap

import examined
import hub_server
import numpy as np
import pytest

from jepa_text.pretrained import exported, labels, load

PROGRAM = """
    import json, sys
    import jepa_text as jt

    model = jt.load({folder!r})
    try:
        urls = [model.push_to_hub(name, license='mit') for name in {names!r}]
        again = jt.load('hf:me/mine')
        vectors_ND = again.encode(['a whale', 'the sea'])
        said = [urls, vectors_ND.tolist(), again.predict(['a whale'])[0]['label']]
    except (ValueError, OSError) as error:
        said = [type(error).__name__, str(error)]
    print(json.dumps(said))
"""


@pytest.fixture(scope='module')
def model(tmp_path_factory):
    """A classifier of the numbers 3 and 5, loaded from a folder."""
    model = examined.model()
    kind = exported.with_usual_head(labels.Labels(labels=(3, 5)), model)
    folder = tmp_path_factory.mktemp('model') / 'tuned'
    examined.with_head(model, kind).save(folder)
    return load.load(folder)


@pytest.mark.slow
def test_a_pushed_model_is_loaded_from_the_hub(model, tmp_path):
    def pushed(names=('mine', 'me/mine'), token=hub_server.TOKEN):
        program = PROGRAM.format(folder=model.name, names=names)
        more = {} if token is None else {'HF_TOKEN': token}
        program = textwrap.dedent(program)
        return hub_server.run_program(program, address, tmp_path / 'cache', **more)

    with hub_server.serving(tmp_path) as (address, asked):
        stale = tmp_path / 'me/mine/main/model.safetensors.index.json'
        hub_server.write(stale.parent, {stale.name: '{}', 'notes.txt': 'mine'})
        urls, vectors_ND, label = pushed()
        assert urls == [f'{address}/me/mine'] * 2
        np.testing.assert_array_equal(
            np.float32(vectors_ND), model.encode(['a whale', 'the sea'])
        )
        assert label == model.predict(['a whale'])[0]['label'] in (3, 5)
        assert (stale.parent / 'notes.txt').exists() and not stale.exists()
        card = (stale.parent / 'README.md').read_text()
        for words in ('# me/mine\n', "from_pretrained('me/mine')", 'license: mit'):
            assert words in card
        assert "jepa_text.load('hf:me/mine')" in card
        count = len(asked)
        (_, words), (_, denied) = pushed(token=None), pushed(token='hf_other')
        assert 'no token found' in words and '`hf auth login`' in words
        assert 'Access to hf:mine is denied' in denied and '`hf auth login`' in denied
        assert 'HFValidationError' in pushed(names=('a b',))[0]
        assert {*asked[count:]} == {'/api/whoami-v2'}


def test_the_missing_extra_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'jepa-text\[hf\]'"):
        model.push_to_hub('mine')
