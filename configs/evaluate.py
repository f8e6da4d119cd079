"""Fine-tuning of models on tasks for every learning rate and seed, with statistics.

    jepa-text evaluate --model=runs/a --task=mine.jsonl --workdir=runs/exam

Models and tasks may also be arguments, as in configs/analyze.py. The grid of the paper is
6 learning rates x 5 seeds; size=toy reduces it to 2 x 2 runs of 50 steps, for a test.
"""

from typing import Literal

from jepa_text.settings import config_file


def get_config(*, models=(), tasks=('bundled',), size: Literal['paper', 'toy'] = 'paper'):
    """Returns the config of an evaluation of models on tasks."""
    config = config_file.shared('analyze').get_config(models=models, tasks=tasks)
    if size == 'toy':
        config.learning_rates, config.seeds = (1e-4, 5e-4), 2
        config.finetuning = dict(steps=50)
    return config
