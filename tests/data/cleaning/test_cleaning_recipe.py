"""The recipe of docs/guides/cleaning.md with datatrove: what it writes is prepared."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import readme

from jepa_text.data import prepare

ROOT = Path(__file__).parents[3]


def document(rng):
    """A text of twelve sentences in English, of made-up words."""
    vocabulary = [f'{a}{b}' for a in ('stone', 'river', 'light') for b in range(100)]
    lines = []
    for _ in range(12):
        words = list(rng.choice(vocabulary, 12))
        lines.append(' '.join(['The', *words[:6], 'of', *words[6:], 'and', 'it']) + '.')
    return '\n'.join(lines)


@pytest.mark.peer
def test_poor_texts_and_near_duplicates_are_left_out(tmp_path, ours, rng):
    for name in ('datatrove', 'spacy'):
        pytest.importorskip(name, reason=f'{name} is not installed')
    good = [document(rng) for _ in range(6)]
    near = good[0].replace(good[0].split()[20], 'other', 1)
    repeated = '\n'.join([good[1].split('\n')[0]] * 12)
    (tmp_path / 'texts').mkdir()
    texts = [*good[:3], 'Too short.', repeated], [*good[3:], near]
    for number, some in enumerate(texts):
        lines = [json.dumps({'text': text}) for text in some]
        (tmp_path / 'texts' / f'{number}.jsonl').write_text('\n'.join(lines))
    guide = (ROOT / 'docs' / 'guides' / 'cleaning.md').read_text(encoding='utf-8')
    ((_, program),) = readme.files(guide).items()
    (tmp_path / 'clean.py').write_text(program)
    command = [sys.executable, 'clean.py', 'texts', 'cleaned']
    subprocess.run(command, cwd=tmp_path, env=os.environ, check=True, timeout=600)
    kept = [
        json.loads(line)['text']
        for path in (tmp_path / 'cleaned' / 'texts').glob('*.jsonl.gz')
        for line in gzip.decompress(path.read_bytes()).decode().splitlines()
    ]
    assert sorted(kept) in (sorted(good), sorted([*good[1:], near]))
    source = {'name': 'jsonl', 'path': str(tmp_path / 'cleaned' / 'texts')}
    folder = tmp_path / 'rows'
    rows = prepare.prepare(source, ours, folder, row_length=64, splits=('train',))
    assert rows['splits']['train']['documents'] in (5, 6)  # one may be held out
