"""Speed comparisons of two alternating processes."""

import re
import sys

import paired_speed
import pytest

# Has the interface of faiss; computes with numpy.
FAISS = """
import numpy as np
class IndexFlatIP:
    def __init__(self, width): pass
    def add(self, corpus): self.corpus = corpus.copy()
    def search(self, queries, k):
        return -np.sort(-queries @ self.corpus.T, axis=1)[:, :k], None
"""


def test_both_sides_alternate_and_agree(tmp_path, monkeypatch, capfd):
    (tmp_path / 'faiss.py').write_text(FAISS)
    monkeypatch.setenv('PYTHONPATH', f'{tmp_path}:{":".join(filter(None, sys.path))}')
    monkeypatch.setattr(paired_speed, 'ROUNDS', 2)
    assert paired_speed.main(['search', '300', '8', '5']) == 0
    output = capfd.readouterr().out
    for name in ('ours, s (wall)', 'faiss, s (CPU)', 'faiss / ours (wall)', '2 rounds'):
        assert name in output
    difference = re.search(r'largest difference\W+(\S+)', output)[1]
    assert float(difference) < 1e-5


def test_unknown_comparison_prints_usage():
    with pytest.raises(SystemExit, match='python tests/paired_speed.py'):
        paired_speed.main(['sort'])
