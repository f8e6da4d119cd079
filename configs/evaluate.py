"""Fine-tuning of models on tasks for every learning rate and seed, with statistics.

    jepa-text evaluate --model=runs/a --task=mine.jsonl --workdir=runs/exam

Models and tasks may also be arguments, as in configs/analyze.py. `size`:

laptop    5 rates with 2 seeds, then 3 more seeds at the rate that is best on validation;
          at most 300 steps or 20 epochs, which also suffice for a few hundred texts
paper     the grid of arXiv 2507.00994: 6 rates, 5 seeds, at most 1,000 steps or 1 epoch
toy       2 rates with 2 seeds, 50 steps, for a test
"""

from typing import Literal

from jepa_text.settings import config_file

# Rates of small encoders and of large ones.
RATES = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3)


def get_config(
    *, models=(), tasks=('bundled',), size: Literal['laptop', 'paper', 'toy'] = 'laptop'
):
    """Returns the config of an evaluation of models on tasks."""
    config = config_file.shared('analyze').get_config(models=models, tasks=tasks)
    if size == 'laptop':
        config.learning_rates, config.search_seeds = RATES, 2
        config.finetuning = dict(steps=300, epochs=20)
    if size == 'toy':
        config.learning_rates, config.seeds = (1e-4, 5e-4), 2
        config.finetuning = dict(steps=50)
    return config
