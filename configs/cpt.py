"""Continued pretraining of an existing model as an encoder, on your text.

    jepa-text train cpt:hf:NAME_OR_FOLDER --workdir=runs/cpt
    jepa-text train cpt:runs/clm,steps=2000,objective=mntp --workdir=runs/cpt
    jepa-text train cpt:runs/clm,steps=300,size=toy --workdir=runs/cpt

The first word is the initial model. The objective is mlm, mntp, which predicts a masked
token at the position before it, as decoders do, or clm, the control of both. arXiv
2507.00994 (section 2.6) continues decoders with 2,000, 12,000 and 22,000 steps of MLM. As
there, the learning rate decays over the last 2,000 of these steps, so that 2,000 only
decay; any other number of steps decays over its last fifth. size=toy is for two cores and
the bundled corpus. Model section, vocabulary and tied heads are the initial model's.
--config.init_from.weights=new trains the same run from scratch.
"""

import hashlib
from pathlib import Path
from typing import Literal

from jepa_text.hf import files
from jepa_text.settings.config_file import shared

PAPER = (2000, 12_000, 22_000)  # steps


def get_config(
    start: str,
    *,
    steps: int | None = None,
    objective: Literal['mlm', 'mntp', 'clm'] = 'mlm',
    size: Literal['paper', 'toy'] = 'paper',
    sets='',
):
    """Returns the config of further steps, by default 12,000 or, if a toy, 100, from
    'hf:NAME', the workdir of a run, or the name of a shipped model. `sets` is a folder
    of evaluation sets whose texts are removed from the corpus."""
    if steps is None:
        steps = 100 if size == 'toy' else 12_000
    config = shared('pretrain').get_config('mlm', size='210m')
    del config.plan
    config.name = f'cpt_{objective}_{steps}'
    start = files.named(start)
    config.init_from = dict(path=start)
    config.steps = steps
    masks = {} if objective == 'clm' else dict(rate=0.4, sampler='iid')
    config.phases = (dict(objective=dict(name=objective, **masks)),)
    config.prepare.tokenizer = 'init_from'
    # Rows are tokenized with the initial model's tokenizer.
    folder = f'runs/rows-cpt-{_named(start)}'
    config.data.update(folder=folder, row_length=2048, batch_size=1152)
    # Changes to the initial model.
    config.model = dict(dtype='bfloat16', scan=True, remat='names')
    decay = dict(decay_steps=2000) if steps in PAPER else dict(decay_fraction=0.2)
    # Warm up from zero, then constant; a run that only decays starts at the peak.
    warmup = 0 if steps == 2000 else 0.01
    config.schedule = dict(name='wsd', peak=5e-4, warmup_fraction=warmup, **decay)
    config = _toy(config, start) if size == 'toy' else config
    if sets:
        shared('small').decontaminate(config, sets)
    return config


def _toy(config, start):
    """Returns the config for two cores: four rows of 128 tokens per step, float32."""
    config.prepare = dict(
        source=dict(name='bundled'), tokenizer='init_from', row_length=128, shards=1
    )
    folder = f'runs/rows-128-{_named(start)}'
    config.data.update(folder=folder, row_length=128, batch_size=4)
    config.model.update(dtype='float32', scan=False, remat='none')
    config.schedule.peak = 2e-4
    config.log_every_steps = 5
    config.evaluate = dict(every_steps=50, max_rows=64)
    config.checkpoint = dict(every_steps=100, keep=1)
    return config


def _named(start):
    """Returns a unique name for rows that depend on the initial model."""
    short = hashlib.sha256(start.encode()).hexdigest()[:6]
    return f'{Path(start.removeprefix("hf:")).name}-{short}'
