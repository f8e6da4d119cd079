"""What took long to compute, in a file: read again while it answers the same question.

{'config': the question, 'results': the answer, 'sha256': of both}
"""

import json
from pathlib import Path

from jepa_text.files import atomic, checksums


def once(path, config, compute):
    """What `compute()` gives for a config, as JSON gives it back; from the file if it is
    there whole and of this config. Says so where the file is damaged."""
    path, config = Path(path), json.loads(json.dumps(config))
    if path.is_file():
        saved, is_whole = _read(path)
        if not is_whole:
            print(f'Note: {path} is damaged, or old, so what it held is computed again.')
        elif saved['config'] == config:
            return saved['results']
    made = {'config': config, 'results': json.loads(json.dumps(compute()))}
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, json.dumps(made | {'sha256': checksums.checksum(made)}, indent=1))
    return made['results']


def read(path):
    """{'config', 'results'} of a file; None where it is not there, damaged or old."""
    saved, is_whole = _read(Path(path)) if Path(path).is_file() else (None, False)
    return saved if is_whole else None


def _read(path):
    """(what the file holds, is it as it was written?)"""
    try:
        saved = json.loads(path.read_text(encoding='utf-8'))
        digest = saved.pop('sha256')
        # NaN is not equal to itself, but its text is.
        return saved, digest == checksums.checksum(saved) and {
            'config',
            'results',
        } == set(saved)
    except (ValueError, KeyError, AttributeError, TypeError):
        return None, False
