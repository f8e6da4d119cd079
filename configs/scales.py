"""Scales of the shipped studies: paper, desk and smoke.

Used by configs/studies/*.py. The steps of arXiv 2507.00994 are divided by PER:

    paper   210m, 610m or 1b with the batches and budgets of the paper. Plan it with
            --dry-run
    desk    1/30 of these steps, with the model and rows of configs/quickstart.py: an hour
            or more on two cores
    smoke   1/1000 of the steps, a tiny model and two seeds: minutes

For the paper scale, provide the texts, as --config.prepare.source.path=texts/, and the
tasks, in the folders below sets/ that `examine` lists; sets/msmarco_pairs has the pairs
to train on for retrieval, as hub:hgissbkh/msmarco-pairs.
"""

from typing import NamedTuple

from jepa_text.settings import ranges
from jepa_text.settings.config_file import shared

PER = {'paper': 1, 'desk': 30, 'smoke': 1000}  # steps of the paper per step
SEEDS = {'paper': 5, 'desk': 5, 'smoke': 2}
RATE = 0.4  # masking rate of arXiv 2507.00994, except in its study of that rate
CATEGORIES = {
    'SC': ('sst2', 'qqp', 'mnli'),
    'TC': ('ontonotes5', 'conll2003', 'uner'),
    'QA': ('squad', 'squad_v2', 'record'),
    'IR': ('nq', 'msmarco', 'mldr'),
}


class Scale(NamedTuple):
    """A scale: its steps, and the sections and runs of a study at that scale."""

    name: str

    @property
    def tied(self):
        """Whether the LM head is tied to the embedding, as in small models."""
        return self.name != 'paper'

    def steps(self, of_paper):
        """Returns the number of steps at this scale from that of the paper."""
        return max(1, round(of_paper / PER[self.name]))

    def clm(self):
        """Returns the objective section of CLM."""
        return dict(name='clm', tied=self.tied)

    def mlm(self, rate=RATE):
        """Returns the objective section of MLM, with tokens sampled independently."""
        return dict(name='mlm', rate=rate, sampler='iid', tied=self.tied)

    def run(self, name, steps, clm=0, rate=RATE, **own):
        """Returns a run of `steps` steps of the paper, the first `clm` of them CLM.

        `own` are further keys of the run.
        """
        parts = [dict(objective=self.mlm(rate))] if clm < steps else []
        if clm:
            of_clm = dict(objective=self.clm())
            if parts:
                of_clm['steps'] = self.steps(clm)
            parts.insert(0, of_clm)
        return dict(name=name, steps=self.steps(steps), phases=tuple(parts), **own)

    def wsd(self, **changes):
        """Returns the schedule of the paper: 2,000 steps of warm-up, 2,000 of decay."""
        peak = 5e-4 if self.name == 'paper' else 3e-3
        few = self.steps(2000)
        return dict(name='wsd', peak=peak, warmup_steps=few, decay_steps=few) | changes


def begun(name, scale, seeds=0, **paper):
    """Returns (config of a study without its runs, Scale).

    `seeds` is their number; 0: SEEDS. `paper` are the arguments of configs/pretrain.py
    at paper scale. Raises ValueError for an invalid number of seeds.
    """
    ranges.number('seeds', seeds, minimum=0)
    scale = Scale(scale)
    if scale.name == 'paper':
        config = shared('pretrain').get_config(**{'preset': 'mlm', **paper})
        del config.phases, config.data['folder']
    else:
        config = shared('quickstart').get_config()
        del config.runs
    config.name = f'{name}_{scale.name}'
    config.seeds = tuple(range(seeds or SEEDS[scale.name]))
    config.report = dict(claims=name)
    {'paper': _paper, 'desk': _desk, 'smoke': _smoke}[scale.name](config, scale)
    return config, scale


def _paper(config, scale):
    """Sets the hardware, the intervals for 192 devices, and the paper's evaluation."""
    config.plan.hardware = 'mi250x:192'
    config.evaluate = dict(every_steps=2000)
    config.checkpoint = dict(every_steps=2000, keep=1)
    config.examine = examine()


def _desk(config, scale):
    config.schedule = scale.wsd()
    # At this interval the probe on 3,000 texts takes a quarter of the time, not half.
    config.evaluate = dict(every_steps=200, max_rows=256, tasks=('bundled',))
    config.checkpoint = dict(every_steps=500, keep=1)


def _smoke(config, scale):
    config.schedule = scale.wsd()
    config.model = dict(name='transformer', preset='tiny', scan=False)
    config.data.batch_size = 4
    config.log_every_steps = 1
    config.evaluate = dict(every_steps=21, max_rows=32, tasks=('bundled',))
    config.checkpoint = dict(every_steps=100, keep=1)
    config.study = dict(tasks=('word_order',))


def examine():
    """Returns the twelve tasks of the paper by category, fine-tuned as there."""
    keys = {'IR': dict(protocol='paper', pairs='sets/msmarco_pairs')}
    return {
        name: dict(
            tasks=tuple(
                dict(name=task, path=f'sets/{task}', **keys.get(name, {}))
                for task in tasks
            ),
            finetuning=dict(rows='paper'),
            select_by='paper',
        )
        for name, tasks in CATEGORIES.items()
    }
