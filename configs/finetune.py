"""Fine-tuning of one model on one task; the fine-tuned model is saved.

    jepa-text finetune --model=runs/a --task=mine.jsonl --workdir=runs/tuned

Model and task may also be arguments. It trains for at most 1,000 steps or 20 epochs;
size=paper, for one epoch, as arXiv 2507.00994; size=toy, for at most 50 steps.
"""

from typing import Literal

from ml_collections import ConfigDict

from jepa_text.evaluation import tasks


def get_config(
    *, model='', task='bundled', size: Literal['laptop', 'paper', 'toy'] = 'laptop'
):
    """Returns the config with the model and the task."""
    config = ConfigDict()
    if model:
        config.model = model
    config.task = tasks.section_of(task)
    if size == 'laptop':
        config.finetuning = dict(epochs=20)
    if size == 'toy':
        config.finetuning = dict(steps=50)
    return config
