"""From the command to the end of a run of one step, perhaps beside another checkout.

    python benchmarks/starting.py [OTHER_CHECKOUT] [--rounds=3]

Each is started cold, without prepared rows or compiled programs, and warm, with both.
"""

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

ROOT = Path(__file__).resolve().parents[1]


def starting(*other, is_ours):
    """The work of `jepa-text train` of a checkout, in a place of its own."""
    checkout, place = ROOT if is_ours else Path(*other).resolve(), tempfile.mkdtemp()
    environ = {k: v for k, v in os.environ.items() if k != 'JAX_COMPILATION_CACHE_DIR'}
    environ |= {'XDG_CACHE_HOME': f'{place}/cache', 'PYTHONPATH': str(checkout)}
    words = ['train', f'--config={checkout}/configs/toy.py:mlm', '--config.steps=1']
    words += [f'--config.data.folder={place}/rows']

    def work():
        workdir = tempfile.mkdtemp(dir=place)
        asked = [sys.executable, '-m', 'jepa_text.main', *words, f'--workdir={workdir}']
        how = dict(cwd=place, env=environ, capture_output=True)
        subprocess.run(asked, check=True, **how)

    return work


if __name__ == '__main__':
    ours, other = (functools.partial(starting, is_ours=is_ours) for is_ours in (1, 0))
    sides = {'cold': ours, 'warm': ours}
    if any(not word.startswith('--') for word in sys.argv[1:]):
        sides |= {'other, cold': other, 'other, warm': other}
    harness.main(__doc__, sides, cold=('cold', 'other, cold'))
