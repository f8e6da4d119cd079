"""Remote files without checksums are copied once, and again when they change."""

import pytest

from jepa_text.data import tokenizers
from jepa_text.files import copies, streams
from jepa_text.hf import named_tokenizer

ADDRESS = 'memory://shelf/model'
NAMES = ('a.json', '1_Pooling/b.json', 'c.bin', '.git/x')


@pytest.fixture(autouse=True)
def store(memory):
    for name in NAMES:
        memory.pipe_file(f'/shelf/model/{name}', name.encode())
    return memory


def test_a_folder_is_copied_again_only_after_a_change(store, monkeypatch):
    folder = copies.copy_folder(f'{ADDRESS}/')
    assert folder.name == 'model'
    assert (folder / '1_Pooling' / 'b.json').read_text() == '1_Pooling/b.json'
    assert not (folder / '.git').exists()
    with monkeypatch.context() as patch:
        patch.setattr(streams, 'open_bytes', None)
        assert copies.copy_folder(ADDRESS) == folder
    store.pipe_file('/shelf/model/a.json', b'other!')
    assert (copies.copy_folder(ADDRESS) / 'a.json').read_text() == 'other!'
    assert (folder / 'a.json').read_text() == 'a.json'


def test_patterns_select_files():
    some = copies.copy_folder(ADDRESS, ('*.json',), ('1_*',))
    assert [path.name for path in some.iterdir()] == ['a.json']
    with pytest.raises(FileNotFoundError, match=r'that matches \*\.txt, but 4 others'):
        copies.copy_folder(ADDRESS, ('*.txt',))
    with pytest.raises(FileNotFoundError, match='memory://shelf/no has no file'):
        copies.copy_folder('memory://shelf/no')


def test_a_file_is_given_directly_or_by_its_folder(store, tmp_path):
    (tmp_path / 'a.json').write_text('here')
    for place in (tmp_path, tmp_path / 'a.json', ADDRESS, f'{ADDRESS}/a.json'):
        assert copies.local_file('x', place, 'a.json').read_text() in ('here', 'a.json')
    assert copies.local_file('x', tmp_path / 'none', 'a.json') == tmp_path / 'none'
    store.pipe_file('/shelf/model/[1].json', b'1')  # no pattern
    assert copies.local_file('x', f'{ADDRESS}/[1].json', '').read_text() == '1'
    with pytest.raises(FileNotFoundError, match=f'{ADDRESS}/b.json does not exist'):
        copies.local_file('x', f'{ADDRESS}/b.json', 'a.json')
    with pytest.raises(ValueError, match="The tokenizer='https://host/t.json' is an add"):
        copies.local_file('The tokenizer', 'https://host/t.json', 'a.json')


@pytest.mark.parametrize('given', ['', '/tokenizer.json'])
def test_a_tokenizer_is_copied_with_the_roles_that_are_declared_beside_it(given, store):
    store.pipe_file('/shelf/own/tokenizer.json', tokenizers.BUNDLED.read_bytes())
    bundled = tokenizers.load(tokenizers.BUNDLED)
    place = f'memory://shelf/own{given}'
    assert tokenizers.load(place).fingerprint == bundled.fingerprint
    store.pipe_file('/shelf/own/tokenizer_config.json', b'{"eos_token": "<reserved_0>"}')
    eos = bundled.backend.token_to_id('<reserved_0>')
    assert named_tokenizer.opened(place).tokenizer.eos_id == eos != bundled.eos_id
