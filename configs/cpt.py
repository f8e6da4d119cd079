"""Continued pretraining of an existing model as an encoder, on your text.

    jepa-text train cpt:hf:NAME_OR_FOLDER,12k --workdir=runs/cpt
    jepa-text train cpt:runs/clm,2k,mntp --workdir=runs/cpt
    jepa-text train cpt:runs/clm,300,mlm,toy --workdir=runs/cpt

The argument is the initial model, the number of steps and the objective: mlm or mntp. The
latter predicts a masked token at the position before it, as decoders do. arXiv 2507.00994
(section 2.6) continues decoders with 2k, 12k and 22k steps of MLM. As there, the learning
rate decays over the last 2,000 steps, so that 2k steps only decay; any other number of
steps decays over its last fifth. `toy` is for two cores and the bundled corpus. The model
section, the vocabulary and tied heads are those of the initial model.
--config.init_from.weights=new trains the same run from scratch.
"""

import hashlib
from pathlib import Path

from jepa_text.settings.config_file import shared

STEPS = {'2k': 2000, '12k': 12_000, '22k': 22_000}


def get_config(argument='hf:,12k'):
    """Returns the config of, for example, 'hf:NAME,12k' or 'runs/old,500,mntp'."""
    path, steps, objective, size, *more = (*argument.split(','), '', '', '')
    steps, objective = steps or '12k', objective or 'mlm'
    if any(more) or size not in ('', 'toy'):
        raise ValueError(f'{argument!r} must be a model, steps, an objective and `toy`.')
    if steps not in STEPS and not steps.isdecimal():
        raise ValueError(f'{steps!r} is neither a number nor one of {", ".join(STEPS)}.')
    config = shared('pretrain').get_config('mlm,210m')
    del config.plan
    config.name = f'cpt_{objective}_{steps}'
    config.init_from = dict(path=path)
    config.steps = STEPS.get(steps) or int(steps)
    config.phases = (dict(objective=dict(name=objective, rate=0.4, sampler='iid')),)
    config.prepare.tokenizer = 'init_from'
    # Rows are tokenized with the initial model's tokenizer.
    folder = f'runs/rows-cpt-{_named(path)}'
    config.data.update(folder=folder, row_length=2048, batch_size=1152)
    # Changes to the initial model.
    config.model = dict(dtype='bfloat16', scan=True, remat='names')
    decay = 2000 if steps in STEPS else 0.2
    # Warm up from zero, then constant; a run that only decays starts at the peak.
    warmup = 0 if steps == '2k' else 0.01
    config.schedule = dict(name='wsd', peak=5e-4, warmup=warmup, decay=decay)
    return _toy(config, path) if size else config


def _toy(config, path):
    """Returns the config for two cores: four rows of 128 tokens per step, float32."""
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
    """Returns a unique name for rows that depend on the initial model at `path`."""
    short = hashlib.sha256(path.encode()).hexdigest()[:6]
    return f'{Path(path.removeprefix("hf:")).name or "none"}-{short}'
