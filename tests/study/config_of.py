"""Configs of the shipped studies, and rows for others."""

from pathlib import Path

import numpy as np
import tiny

from jepa_text.running import budget
from jepa_text.settings import config_file
from jepa_text.study import study

FOLDER = Path(__file__).parents[2] / 'configs' / 'studies'
# Those of the papers, each with its claims at three scales.
NAMES = sorted({path.stem for path in FOLDER.glob('*.py')} - {'downstream'})


def shipped(name, scale, seeds=None):
    """Returns the complete config of a shipped study as plain dicts."""
    argument = f'scale={scale}' + (f',seeds={seeds}' if seeds else '')
    path = FOLDER / f'{name}.py'
    return study.plain(config_file.read(f'{path}:{argument}'))


def share_of_clm(config):
    """Returns the share of a run's steps in phases of CLM."""
    spans = budget.spans(config['phases'], budget.total_steps(config))
    names = [phase['objective']['name'] for phase in config['phases']]
    causal = sum(stop - start for (start, stop), n in zip(spans, names) if n == 'clm')
    return causal / budget.total_steps(config)


def prepare_of(folder, sentences):
    """Returns the section `prepare` of random sentences, written to the folder."""
    rng = np.random.default_rng(0)
    made = [f'The {" ".join(rng.choice(tiny.NOUNS, 11))} end.' for _ in range(sentences)]
    parts = [' '.join(made[n : n + 15]) for n in range(0, sentences, 15)]
    (folder / 'own.txt').write_text('\n\n'.join(parts))
    source = dict(name='text', path=str(folder / 'own.txt'), heldout_every=4)
    return dict(source=source, tokenizer='bundled', row_length=32, shards=1)
