"""Results of expensive computations, cached in a JSON file together with their config.

The file is {'config': ..., 'results': ..., 'sha256': checksum of both}.
"""

import json
from pathlib import Path

from jepa_text.files import atomic, checksums


def get_or_compute(path, config, compute):
    """Returns `compute()` after a JSON round trip, read from the file if possible.

    The file is used if it is intact and of the same config, and is written otherwise.
    Prints a note if it is damaged.
    """
    path, config = Path(path), json.loads(json.dumps(config))
    if path.is_file():
        saved, is_intact = _read(path)
        if not is_intact:
            print(f'Note: {path} is damaged or outdated; its results are computed again.')
        elif saved['config'] == config:
            return saved['results']
    made = {'config': config, 'results': json.loads(json.dumps(compute()))}
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, json.dumps(made | {'sha256': checksums.checksum(made)}, indent=1))
    return made['results']


def read(path):
    """Returns {'config', 'results'} of a file; None if it is missing, damaged or old."""
    saved, is_intact = _read(Path(path)) if Path(path).is_file() else (None, False)
    return saved if is_intact else None


def _read(path):
    """Returns (content of the file, whether it is intact)."""
    try:
        saved = json.loads(path.read_text(encoding='utf-8'))
        digest = saved.pop('sha256')
        # Compared by checksum, not by value: NaN is not equal to itself, but its text is.
        is_intact = digest == checksums.checksum(saved)
        return saved, is_intact and set(saved) == {'config', 'results'}
    except (ValueError, KeyError, AttributeError, TypeError):
        return None, False
