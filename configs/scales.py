"""The scales of the shipped studies: paper, desk and smoke.

Read by configs/studies/*.py. Steps are those of arXiv 2507.00994 and are divided:

    paper   210m, 610m or 1b, batches and budgets as there: to be planned with --dry-run,
            and run where there is the hardware
    desk    a thirtieth of the steps, model and rows of configs/quickstart.py: hours on
            two cores or one GPU
    smoke   a thousandth, a tiny model, two seeds: minutes

Texts and tasks of the paper scale are yours: --config.prepare.source.path=texts/, and
the folders under sets/ that `examine` names.
"""

from typing import NamedTuple

from jepa_text.config.config_file import shared

PER = {'paper': 1, 'desk': 30, 'smoke': 1000}  # steps of the paper for one of ours
SEEDS = {'paper': 5, 'desk': 5, 'smoke': 2}
RATE = 0.4  # of arXiv 2507.00994 wherever the masking rate is not what is varied
CATEGORIES = {
    'SC': ('sst2', 'qqp', 'mnli'),
    'TC': ('ontonotes5', 'conll2003', 'uner'),
    'QA': ('squad', 'squad_v2', 'record'),
    'IR': ('nq', 'msmarco', 'mldr'),
}


class Scale(NamedTuple):
    """A scale, and whether heads are tied to the embedding, as the small ones are."""

    name: str

    @property
    def tied(self):
        """Is the head the embedding?"""
        return self.name != 'paper'

    def steps(self, of_paper):
        """So many steps of the paper in steps of this scale."""
        return max(1, round(of_paper / PER[self.name]))

    def clm(self):
        """The section of CLM."""
        return dict(name='clm', tied=self.tied)

    def mlm(self, rate=RATE):
        """The section of MLM; each token by itself, as the paper draws."""
        return dict(name='mlm', rate=rate, sampler='iid', tied=self.tied)

    def run(self, name, steps, clm=0, rate=RATE, **own):
        """A run: so many steps, the first `clm` of them CLM; and keys of its own."""
        parts = [dict(objective=self.mlm(rate))] if clm < steps else []
        if clm:
            of_clm = dict(objective=self.clm())
            if parts:
                of_clm['steps'] = self.steps(clm)
            parts.insert(0, of_clm)
        return dict(name=name, steps=self.steps(steps), phases=tuple(parts), **own)

    def wsd(self, **changes):
        """The schedule of the paper: 2,000 steps of warm-up, 2,000 of decay."""
        peak = 5e-4 if self.name == 'paper' else 3e-3
        few = self.steps(2000)
        return dict(name='wsd', peak=peak, warmup=few, decay=few) | changes


def begun(name, argument, paper='mlm,610m'):
    """(config of a study without its runs, Scale) of 'scale=desk,seeds=3'.

    `paper` is the argument of configs/pretrain.py at that scale. Raises ValueError for
    another scale or key, and no number of seeds.
    """
    which, seeds, _ = parsed(argument, SEEDS)
    scale = Scale(which)
    if scale.name == 'paper':
        config = shared('pretrain').get_config(paper)
        del config.phases
    else:
        config = shared('quickstart').get_config()
        del config.runs
    config.name = f'{name}_{scale.name}'
    config.seeds = tuple(range(seeds))
    config.report = dict(claims=name)
    {'paper': _paper, 'desk': _desk, 'smoke': _smoke}[scale.name](config, scale)
    return config, scale


def parsed(argument, seeds_of, *more):
    """(scale, number of seeds, {the values of `more`}) of 'scale=desk,seeds=5'; seeds are
    those of `seeds_of` {scale: number} where none are given."""
    given = dict(word.partition('=')[::2] for word in argument.split(',') if word)
    keys = ('scale', 'seeds', *more)
    if unknown := given.keys() - set(keys):
        raise ValueError(f'{min(unknown)!r} is no key; there are {", ".join(keys)}.')
    scale = given.pop('scale', 'desk')
    if scale not in seeds_of:
        raise ValueError(f'scale={scale!r} is not one of {", ".join(seeds_of)}.')
    seeds = given.pop('seeds', str(seeds_of[scale]))
    if not seeds.isdecimal() or not int(seeds):
        raise ValueError(f'seeds={seeds!r} is no number of seeds, as 5.')
    return scale, int(seeds), given


def _paper(config, scale):
    """What follows from 192 devices, and a grid that is evaluated as there."""
    config.plan.hardware = 'mi250x:192'
    config.evaluate = dict(every=2000)
    config.checkpoint = dict(every=2000, keep=1)
    config.examine = examine()


def _desk(config, scale):
    config.schedule = scale.wsd()
    config.plan = dict(hardware='h100')
    # So often that the probe's 3,000 texts take a quarter of the time, not half of it.
    config.evaluate = dict(every=200, max_rows=256, tasks=('bundled',))
    config.checkpoint = dict(every=500, keep=1)


def _smoke(config, scale):
    config.schedule = scale.wsd()
    config.model = dict(name='transformer', preset='tiny', scan=False)
    config.data.batch_size = 4
    config.plan = dict(hardware='h100')
    config.log_every = 1
    config.evaluate = dict(every=21, max_rows=32, tasks=('bundled',))
    config.checkpoint = dict(every=100, keep=1)
    config.study = dict(tasks=('word_order',))


def examine():
    """The twelve tasks of the paper, fine-tuned as there, by category."""
    return {
        name: dict(
            tasks=tuple(dict(name=task, path=f'sets/{task}') for task in tasks),
            finetuning=dict(rows='paper'),
            select_by='paper',
        )
        for name, tasks in CATEGORIES.items()
    }
