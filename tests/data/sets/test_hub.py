"""Tests for hub datasets by name, with a local server."""

import sys
import textwrap

import draws
import hub_server
import pytest
from hub_server import write

from jepa_text.data.sets import hub

pytest.importorskip('huggingface_hub')
CARD = """---
configs:
- config_name: sst2
  data_files:
  - split: train
    path: sst2/train-*
  - split: validation
    path: [sst2/validation-*]
- config_name: cola
  data_dir: cola
- config_name: away
  data_files: ../../secret.jsonl
---
A card.
"""
EACH = """
    import json
    from jepa_text.data.sets import hub

    def show(name):
        try:
            splits, commit = hub.find(name)
        except Exception as error:
            return [type(error).__name__, str(error)]
        names = {k: [f.as_posix().split(f'/{commit}/')[1] for f in files]
                 for k, files in sorted(splits.items())}
        read = [f.read_text() for files in splits.values() for f in files]
        return [commit, names, read]
"""


ERRORS = [
    ('lab/glue', 'ValueError', "available configs: ['sst2', 'cola', 'away']"),
    (hub_server.KEYED, 'PermissionError', '`hf auth login`, or set HF_TOKEN'),
    (
        'lab/glue/sst',
        'ValueError',
        "'sst' not found. Available: ['sst2', 'cola', 'away']",
    ),
    ('lab/script', 'FileNotFoundError', "'hub:lab/script@refs/convert/parquet'"),
    (f'lab/script/big@{hub.CONVERTED}', 'FileNotFoundError', 'only a part of its'),
    (f'lab/script@{hub.CONVERTED}', 'ValueError', 'several configs: big, en. Say'),
    ('lab/glue/sst2@v7', 'FileNotFoundError', '@v7 does not exist'),
    ('lab/none', 'FileNotFoundError', 'hub:lab/none does not exist'),
    ('lab/gated', 'PermissionError', 'accept the terms on its page'),
    ('lab/nothing', 'FileNotFoundError', 'no files that can be read here'),
    ('lab/glue/away', 'FileNotFoundError', 'no files that can be read here'),
    ('a//b', 'ValueError', "write 'hub:NAME[/CONFIG][@REVISION]'"),
    ('lab/..name', 'ValueError', 'is not a valid name on the hub'),
]


def ask(address, cache, names, **environment):
    """Returns the results of hub.find for each name, in a new process."""
    asked = f'print(json.dumps({{name: show(name) for name in {list(names)!r}}}))'
    program = f'{textwrap.dedent(EACH)}{asked}'
    return hub_server.run_program(program, address, cache, **environment)


@pytest.fixture(scope='module')
def sets(tmp_path_factory):
    """A folder of datasets for the server."""
    top = tmp_path_factory.mktemp('hub')
    parquet = [
        f'{c}/{s}-0000{n}-of-00002.parquet'
        for c in ('sst2', 'cola')
        for s in ('train', 'validation')
        for n in (0, 1)
    ]
    write(top / 'lab/glue/main', {'README.md': CARD} | {x: x for x in parquet})
    write(top / 'lab/glue/v1', {'sst2/train.jsonl': 'old', 'sst2/dev.jsonl': 'old'})
    plain = {'data/train.jsonl': 'a', 'test.jsonl': 'b', 'train.csv': 'the same again'}
    about = {'dataset_infos.json': '{}', 'make.py': 'code', 'picture.png': 'large'}
    write(top / 'lab/plain/main', plain | about)
    write(top / 'lab/script/main', {'script.py': 'code', 'README.md': 'No header.'})
    converted = {'en/train/0000.parquet': 'x', 'en/test/0000.parquet': 'y'}
    converted |= {'big/partial-train/0000.parquet': 'p'}
    write(top / 'lab/script' / hub.CONVERTED.replace('/', '%'), converted)
    write(top / 'lab/nothing/main', {'script.py': 'code'})
    write(top / 'lab/gated/main', {'train.jsonl': 'a'})
    return top


@pytest.fixture(scope='module')
def results(sets, tmp_path_factory):
    """The results for every name below, and the requests to the server."""
    cache = tmp_path_factory.mktemp('cache')
    names = ['lab/glue/sst2', 'lab/glue/cola', 'lab/glue/sst2@v1', 'lab/plain']
    names += [f'lab/script/{x}@{hub.CONVERTED}' for x in ('en', 'big')]
    names = ['hub:' + name for name in (*names, *(name for name, *_ in ERRORS))]
    with hub_server.serving(sets) as (address, asked):
        commit = hub_server.commit('lab/glue', 'v1')
        names.append(f'hub:lab/glue/sst2@{commit}')
        made = ask(address, cache, names)
    return {k.removeprefix('hub:'): v for k, v in made.items()}, asked, cache


@pytest.mark.slow
def test_the_card_determines_the_files_of_a_config(results):
    commit, splits, read = results[0]['lab/glue/sst2']
    assert commit == hub_server.commit('lab/glue', 'main')
    files = [
        f'sst2/{s}-0000{n}-of-00002.parquet'
        for s in ('train', 'validation')
        for n in (0, 1)
    ]
    assert splits == {'train': files[:2], 'validation': files[2:]} and read == files
    # If it names no splits, file names determine them.
    assert list(results[0]['lab/glue/cola'][1]) == ['train', 'validation']


@pytest.mark.slow
def test_a_revision_is_a_name_or_a_commit(results):
    commit = hub_server.commit('lab/glue', 'v1')
    for name in ('lab/glue/sst2@v1', f'lab/glue/sst2@{commit}'):
        found = results[0][name]
        assert found[0] == commit and set(found[1]) == {'validation', 'train'}
        assert found[2] == ['old', 'old']


@pytest.mark.slow
def test_only_one_format_is_downloaded_without_a_card(results):
    assert results[0]['lab/plain'][1] == {
        'train': ['data/train.jsonl'],
        'test': ['test.jsonl'],
    }
    assert not [
        path
        for path in results[1]
        if path.endswith(('.png', '.csv', '.bin')) and 'lab/plain' in path
    ]


@pytest.mark.slow
@pytest.mark.parametrize('name, kind, words', ERRORS)
def test_errors_are_clear(results, name, kind, words):
    assert results[0][name][0] == kind and words in results[0][name][1]


@pytest.mark.slow
def test_the_cache_is_read_without_a_network(results, sets):
    _, _, cache = results
    names = [
        'hub:lab/glue/sst2',
        f'hub:lab/script/en@{hub.CONVERTED}',
        'hub:lab/script/de',
    ]
    found = ask('http://127.0.0.1:9', cache, names, HF_HUB_OFFLINE='1')
    for name in names[:2]:
        assert found[name] == results[0][name.removeprefix('hub:')]
    # Never downloaded, so it is not in the cache.
    kind, words = found[names[2]]
    assert kind == 'FileNotFoundError' and 'not complete in the local cache' in words


@pytest.mark.parametrize(
    'form', draws.in_stages('sst2/train-00001*', 'sst2/validation-*')
)
def test_a_part_of_a_cache_is_not_taken_for_the_whole(sets, tmp_path, form):
    """As after an interrupted download; a config that was never wanted is no part."""
    names = ['hub:lab/glue/sst2', 'hub:lab/glue/cola']
    offline = dict(address='http://127.0.0.1:9', HF_HUB_OFFLINE='1', cache=tmp_path)
    with hub_server.serving(sets) as (address, _):
        one = ask(address, tmp_path, names[:1])
        assert ask(names=names[:1], **offline) == one
        ask(address, tmp_path, names[1:])
    for file in tmp_path.glob(f'hub/datasets--lab--glue/snapshots/*/{form}'):
        file.unlink()
    found = ask(names=names, **offline)
    assert len(found[names[1]][1]) == 2
    kind, words = found[names[0]]
    assert kind == 'FileNotFoundError' and 'not complete in the local cache' in words


def test_errors_of_the_system_are_raised_as_they_are():
    with pytest.raises(PermissionError, match='Errno 13'), hub._clear_errors('hub:a/b'):
        raise PermissionError(13, 'Permission denied', 'a cache that is read-only')


def test_a_missing_package_raises_with_a_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'jepa-text\[hf\]'"):
        hub.find('hub:lab/glue')
