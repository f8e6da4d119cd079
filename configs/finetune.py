"""Fine-tuning of one model on one task; the fine-tuned model is saved.

    jepa-text finetune --model=runs/a --task=mine.jsonl --workdir=runs/tuned

Model and task may also be arguments; size=toy trains for at most 50 steps.
"""

from typing import Literal

from ml_collections import ConfigDict

from jepa_text.evaluation import tasks


def get_config(*, model='', task='bundled', size: Literal['paper', 'toy'] = 'paper'):
    """Returns the config with the model and the task."""
    config = ConfigDict()
    if model:
        config.model = model
    config.task = tasks.section_of(task)
    if size == 'toy':
        config.finetuning = dict(steps=50)
    return config
