r"""One model fine-tuned on one task, and kept.

    jepa-text finetune --config=configs/finetune.py:model=runs/a,task=mine.jsonl \
      --workdir=runs/tuned

Model and task are named as in configs/evaluate.py; a task that takes more is a setting:

    --config.task="{'name': 'labeled', 'path': 'a.csv', 'text': 'a', 'label': 'b'}"
"""

from ml_collections import ConfigDict

from jepa_text.config import config_file


def get_config(chosen='task=bundled'):
    """The model and the task of the argument."""
    named = chosen.replace('model=', 'models=').replace('task=', 'tasks=')
    examined = config_file.shared('evaluate').get_config(named)
    config = ConfigDict()
    if examined.models:
        (config.model,) = examined.models
    (config.task,) = examined.tasks
    return config
