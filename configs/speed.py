"""Speed benchmark of training methods: losses and hours on the bundled corpus.

    jepa-text study speed:only=muon --workdir=runs/speed
    jepa-text study speed --workdir=runs/speed

During training, the loss is measured on a third of the held-out documents, on which
entries may be tuned. The others, the split 'test', are evaluated once, at the end. Rows,
tokenizer and model size are those of configs/quickstart.py; an entry is a way to train
the model.

    scale=desk     the benchmark: five seeds, and probes of the split 'test'
    scale=tune     one seed, without the split 'test': for experiments

`only=muon` runs one entry, `only=muon,hybrid` two; `seeds=3` sets the number of seeds.
LOG.md lists what was tried and how much it gained.
"""

from typing import Literal

from jepa_text.settings import ranges, resolve
from jepa_text.settings.config_file import shared

SEEDS = {'desk': 5, 'tune': 1}
STEPS = 1300  # at most

# A tenfold rate of the tied embedding: 4.355 instead of 4.437 after 650 steps (LOG.md).
MUON = dict(name='muon', lr_multipliers=(('embedding$', 10.0),))
# Fewer steps that are cheaper, each change a gain in LOG.md: normalized queries and keys,
# an embedding that does not decay, a longer decay of the learning rate, other means over
# gradients, and three iterations with the best coefficients for three.
MUON_420 = dict(
    steps=420,
    model=dict(qk_norm=True),
    optimizer=dict(
        MUON,
        decay_paths='kernel$',
        momentum=0.8,
        b1=0.85,
        b2=0.99,
        ns_steps=3,
        ns_lower=0.01,
    ),
    schedule=dict(name='wsd', peak=4e-3, warmup_fraction=0.05, decay_fraction=0.65),
)


def entries():
    """Returns {name: keys of the run}."""
    runs = shared('quickstart').get_config().runs
    phases = {run['name']: run['phases'] for run in runs}
    clm, mlm = phases['clm_mlm']
    falling = dict(mlm['objective'], rate=dict(name='linear', start=0.3, end=0.15))
    return {
        # As in the quickstart.
        'mlm': dict(phases=phases['mlm']),
        'clm_mlm': dict(phases=phases['clm_mlm']),
        'hybrid': dict(phases=phases['clm_jepa_mlm']),
        'muon': dict(phases=phases['clm_mlm'], optimizer=MUON),
        'muon_420': dict(phases=phases['clm_mlm'], **MUON_420),
        'falling_rate': dict(phases=(clm, dict(objective=falling))),
    }


def get_config(*, scale: Literal['desk', 'tune'] = 'desk', seeds=0, only=()):
    """Returns the config of some entries, or of all, at a scale."""
    ranges.number('seeds', seeds, minimum=0)
    config = shared('quickstart').get_config()
    config.name, config.seeds = f'speed_{scale}', tuple(range(seeds or SEEDS[scale]))
    config.steps, config.runs = STEPS, _runs(only)
    config.prepare.source.test = True
    config.prepare.splits = ('train', 'heldout', 'test')
    # Checkpoints are only needed to resume.
    config.checkpoint = dict(every_steps=650, keep=1)
    config.evaluate = dict(every_steps=25, max_rows=512)
    config.study = dict(tasks=('word_order', 'bigram_shift'), split='test')
    if scale == 'tune':
        config.study = dict(tasks=())
    return config


def _runs(names):
    known = entries()
    for name in names:
        resolve.check_choice('only', name, known)
    return tuple(dict(name=name, **known[name]) for name in names or known)
