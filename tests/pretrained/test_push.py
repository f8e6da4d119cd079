"""Models on the hub: pushed to a local stand-in, and loaded from there."""

import contextlib
import sys
import textwrap
import types

import examined
import hub_server
import numpy as np
import pytest

from jepa_text.pretrained import export, exported, labels, load

PROGRAM = """
    import contextlib, json, os, urllib.error, urllib.request
    import jepa_text as jt

    def pushed(names, token):
        os.environ.pop('HF_TOKEN', None)
        if token:
            os.environ['HF_TOKEN'] = token
        try:
            urls = [model.push_to_hub(name, license='mit') for name in names]
            again = jt.load('hf:me/mine')
            vectors_ND = again.encode(['a whale', 'the sea'])
            return [urls, vectors_ND.tolist(), again.predict(['a whale'])[0]['label']]
        except (ValueError, OSError) as error:
            return [type(error).__name__, str(error)]
        finally:
            # The requests of each call end with this one.
            with contextlib.suppress(urllib.error.HTTPError):
                urllib.request.urlopen(os.environ['HF_ENDPOINT'] + '/end')

    model = jt.load({folder!r})
    print(json.dumps([pushed(*given) for given in {calls!r}]))
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
    both, token = ('mine', 'me/mine'), hub_server.TOKEN
    calls = [(both, token), (both, None), (both, 'hf_other'), (('a b',), token)]
    program = textwrap.dedent(PROGRAM).format(folder=model.name, calls=calls)
    with hub_server.serving(tmp_path) as (address, asked):
        stale = tmp_path / 'me/mine/main/model.safetensors.index.json'
        hub_server.write(stale.parent, {stale.name: '{}', 'notes.txt': 'mine'})
        found = hub_server.run_program(program, address, tmp_path / 'cache')
    (urls, vectors_ND, label), (_, words), (_, denied), (invalid, _) = found
    assert urls == [f'{address}/me/mine'] * 2
    np.testing.assert_array_equal(
        np.float32(vectors_ND), model.encode(['a whale', 'the sea'])
    )
    assert label == model.predict(['a whale'])[0]['label'] in (3, 5)
    assert (stale.parent / 'notes.txt').exists() and not stale.exists()
    card = (stale.parent / 'README.md').read_text()
    for line in ('# me/mine\n', "from_pretrained('me/mine')", 'license: mit'):
        assert line in card
    assert "jepa_text.load('hf:me/mine')" in card
    assert 'no token found' in words and '`hf auth login`' in words
    assert 'Access to hf:mine is denied' in denied and '`hf auth login`' in denied
    assert 'HFValidationError' in invalid
    assert asked.count('/end') == len(calls)
    assert {*asked[asked.index('/end') :]} == {'/end', '/api/whoami-v2'}


@pytest.mark.parametrize('private', [True, False, None])
def test_nothing_private_is_uploaded_where_it_is_public(model, monkeypatch, private):
    hub, uploaded = pytest.importorskip('huggingface_hub'), []
    monkeypatch.setattr(export, 'write', lambda *_, **options: None)
    for name, answer in (
        ('whoami', lambda: {'name': 'me'}),
        ('create_repo', lambda name, private, exist_ok: name),
        ('repo_info', lambda name: types.SimpleNamespace(private=False)),
        ('upload_folder', lambda **given: uploaded.append(given['repo_id'])),
    ):
        monkeypatch.setattr(hub, name, answer)
    refused = pytest.raises(ValueError, match='private=True, but me/mine is public')
    with refused if private else contextlib.nullcontext():
        model.push_to_hub('mine', private)
    assert uploaded == ([] if private else ['me/mine'])


def test_the_missing_extra_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'jepa-text\[hf\]'"):
        model.push_to_hub('mine')
