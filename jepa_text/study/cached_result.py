"""Results of expensive computations, cached in a JSON file: {'config': ..., 'results':
..., 'sha256': checksum of both}."""

import json
from pathlib import Path

from jepa_text.files import atomic, checksums


def get_or_compute(path, config, compute):
    """Returns `compute()` after a JSON round trip, read from the file if it is intact and
    of the same config, and written to it otherwise; prints a note if it is damaged."""
    path = Path(path)
    if path.is_file() and read(path) is None:
        print(f'Note: {path} is damaged or outdated; its results are computed again.')
    if (known := answer(path, config)) is not None:
        return known
    made = json.loads(json.dumps({'config': config, 'results': compute()}))
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, json.dumps(made | {'sha256': checksums.checksum(made)}, indent=1))
    return made['results']


def read(path):
    """Returns {'config', 'results'} of a file; None if it is missing, damaged or old."""
    try:
        saved = json.loads(Path(path).read_text(encoding='utf-8'))
        digest = saved.pop('sha256')
        # Compared by checksum, not by value: NaN is not equal to itself, but its text is.
        is_intact = digest == checksums.checksum(saved)
    except (FileNotFoundError, ValueError, KeyError, AttributeError, TypeError):
        return None
    return saved if is_intact and set(saved) == {'config', 'results'} else None


def answer(path, config):
    """Returns the results in a file; None unless it is intact and of this config."""
    saved = read(path)
    is_same = saved and saved['config'] == json.loads(json.dumps(config))
    return saved['results'] if is_same else None
