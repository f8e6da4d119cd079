"""Continued pretraining: a model that exists goes on, as an encoder, on your text.

    jepa-text train --config=configs/cpt.py:hf:NAME_OR_FOLDER,12k --workdir=runs/cpt
    jepa-text train --config=configs/cpt.py:runs/clm,2k,mntp --workdir=runs/cpt
    jepa-text train --config=configs/cpt.py:runs/clm,300,mlm,toy --workdir=runs/cpt

The argument is what it starts from, how many steps, and the objective: mlm or mntp, which
names a masked token at the position before it, as decoders do. arXiv 2507.00994 (section
2.6) went on from decoders with 2k, 12k and 22k steps of MLM; here too the last 2,000
steps decay, so that 2k only decays. Any other number of steps decays over its last fifth.
`toy` is for two cores and the bundled corpus. Model section, vocabulary and tied heads
are those of the start; --config.init_from.weights=new is the same run from scratch.
"""

import hashlib
from pathlib import Path

from jepa_text.config.config_file import shared

STEPS = {'2k': 2000, '12k': 12_000, '22k': 22_000}
OBJECTIVES = ('mlm', 'mntp')


def get_config(argument='hf:,12k'):
    """What to start from, and for how long: 'hf:NAME,12k' or 'runs/old,500,mntp'."""
    path, steps, objective, size, *_ = (*argument.split(','), '', '', '')
    steps, objective = steps or '12k', objective or 'mlm'
    if size not in ('', 'toy'):
        raise ValueError(f'{size!r} is no size; there is toy, or nothing.')
    if objective not in OBJECTIVES:
        raise ValueError(f'{objective!r} is not one of {", ".join(OBJECTIVES)}.')
    if steps not in STEPS and not steps.isdecimal():
        raise ValueError(f'{steps!r} is no number, nor one of {", ".join(STEPS)}.')
    config = shared('pretrain').get_config('mlm,210m')
    del config.plan
    config.name = f'cpt_{objective}_{steps}'
    config.init_from = dict(path=path)
    config.steps = STEPS.get(steps) or int(steps)
    config.phases = (dict(objective=dict(name=objective, rate=0.4, sampler='iid')),)
    config.prepare.tokenizer = 'init_from'
    # Rows are in the tokens of the start.
    folder = f'runs/rows-cpt-{_named(path)}'
    config.data.update(folder=folder, row_length=2048, batch_size=1152)
    # Changes to the model of the start.
    config.model = dict(dtype='bfloat16', scan=True, remat='names')
    decay = 2000 if steps in STEPS else 0.2
    # From nothing up again, then constant; a run that only decays begins at the peak.
    warmup = 0 if steps == '2k' else 0.01
    config.schedule = dict(name='wsd', peak=5e-4, warmup=warmup, decay=decay)
    return _toy(config, path) if size else config


def _toy(config, path):
    """Two cores, four rows of 128 a step, float32."""
    config.prepare = dict(
        source=dict(name='bundled'), tokenizer='init_from', row_length=128, shards=1
    )
    folder = f'runs/rows-128-{_named(path)}'
    config.data.update(folder=folder, row_length=128, batch_size=4)
    config.model.update(dtype='float32', scan=False, remat='none')
    config.schedule.peak = 2e-4
    config.log_every = 5
    config.evaluate = dict(every=50, max_rows=64)
    config.checkpoint = dict(every=100, keep=1)
    return config


def _named(path):
    """A name for what is made from a start, of its own for each path."""
    short = hashlib.sha256(path.encode()).hexdigest()[:6]
    return f'{Path(path.removeprefix("hf:")).name or "none"}-{short}'
