"""Tests that corpora are exported to TensorFlow Datasets and read by name."""

import json

import children
import pytest

from jepa_text.data.sources import text, tfds

BUILD = """
import json, sys
from jepa_text.data.corpora import tfds_builder
print(tfds_builder.build('mine', json.loads(sys.argv[1])))
"""
READ = """
import json, sys
from jepa_text.data.sources import tfds
path, split = sys.argv[1:]
found = tfds.make(split, path, splits=('train', 'heldout'), heldout_every=5)
print(json.dumps([document['text'] for document in found]))
print('tensorflow' in sys.modules)
"""


def run(folder, *words):
    env = {'TFDS_DATA_DIR': str(folder)}
    return children.run(*words, env=env).stdout.splitlines()


@pytest.mark.slow
def test_a_corpus_is_built_and_read_by_name(tmp_path):
    (tmp_path / 'a.txt').write_text('\n\n'.join(f'text {n} é' for n in range(60)))
    source = {'name': 'text', 'path': str(tmp_path / 'a.txt'), 'heldout_every': 5}
    sets = tmp_path / 'sets'
    made = run(sets, '-c', BUILD, json.dumps(source))[-1]
    assert made == str(sets / 'jepa_corpus/mine/1.0.0')
    for split in ('train', 'heldout'):
        wanted = text.make(split, path=source['path'], heldout_every=5)
        found, imported = run(sets, '-c', READ, 'tfds:jepa_corpus/mine', split)[-2:]
        assert sorted(json.loads(found)) == sorted(d['text'] for d in wanted)
        assert imported == 'False'


def test_an_unknown_name_raises():
    with pytest.raises(FileNotFoundError, match='no dataset with this name.*TFDS_DATA'):
        tfds.make('train', 'tfds:no_such_set_at_all')
