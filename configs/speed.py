"""The speed board: the least time to a stated score, on the bundled corpus.

    jepa-text study --config=configs/speed.py:only=muon --workdir=runs/speed
    jepa-text study --config=configs/speed.py --workdir=runs/speed

The target is read off a third of the held-out documents, which an entry may be tuned on;
the others, the split 'test', are scored once, in the end. Rows, tokenizer and the size of
the model are those of configs/quickstart.py; how it is trained is what an entry is.

    scale=desk     the board: five seeds, and probes of the split 'test'
    scale=tune     one seed, which never reads it: for trying things out
    scale=smoke    a tiny model, two seeds and a target that it reaches: a minute or two

`only=muon` has one entry, `only=muon+hybrid` two, `seeds=3` other numbers of seeds. What
was tried, and what it gained, is in LOG.md.
"""

from jepa_text.config.config_file import shared

SEEDS = {'desk': 5, 'tune': 1, 'smoke': 2}
STEPS = 1300  # at most
# What the quickstart's CLM, then MLM comes to on the documents to tune on, where it has
# 4.21 on all that are held out.
TARGET = {'heldout/mlm_loss': 4.25}
EASY = {'heldout/mlm_loss': 9.0}  # more than that of a uniform guess, ln 2,048

CLM = dict(name='clm', tied=True)
MUON = dict(name='muon')


def mlm(rate=0.3):
    """The section of MLM."""
    return dict(name='mlm', rate=rate, tied=True)


def first_clm(objective, share=0.25):
    """CLM for a share of the steps, and then another objective."""
    return (dict(share=share, objective=CLM), dict(objective=objective))


def entries():
    """{name: what a run has of its own}."""
    runs = shared('quickstart').get_config().runs
    phases = {run['name']: run['phases'] for run in runs}
    falling = dict(name='linear', start=0.3, end=0.15)
    return {
        # As in the quickstart.
        'mlm': dict(phases=phases['mlm']),
        'clm_mlm': dict(phases=phases['clm_mlm']),
        'hybrid': dict(phases=phases['clm_jepa_mlm']),
        'muon': dict(phases=first_clm(mlm()), optimizer=MUON),
        'falling_rate': dict(phases=first_clm(mlm(falling))),
    }


def get_config(argument=''):
    """'scale=desk,seeds=5,only=muon+hybrid', or less of it."""
    scale, seeds, given = shared('scales').parsed(argument, SEEDS, 'only')
    names = [name for name in given.get('only', '').split('+') if name]
    config = shared('quickstart').get_config()
    config.name, config.seeds = f'speed_{scale}', tuple(range(seeds))
    config.steps, config.runs = STEPS, _runs(names)
    config.prepare.source.test = True
    config.prepare.splits = ('train', 'heldout', 'test')
    # Checkpoints only to go on from.
    config.checkpoint = dict(every=650, keep=1)
    config.evaluate = dict(every=25, max_rows=512)
    config.report = dict(target=TARGET)
    config.study = dict(tasks=('word_order', 'bigram_shift', 'odd_word'), split='test')
    if scale == 'tune':
        config.study = dict(tasks=())
    if scale == 'smoke':
        config.steps, config.log_every = 8, 1
        config.model = dict(name='transformer', preset='tiny', scan=False)
        config.data.batch_size = 4
        config.checkpoint.every = 8
        config.evaluate = dict(every=4, max_rows=32)
        config.report.target = EASY
        config.study.tasks = ()
    return config


def _runs(names):
    known = entries()
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f'{unknown[0]!r} is no entry; there are {", ".join(known)}.')
    return tuple(dict(name=name, **known[name]) for name in names or known)
