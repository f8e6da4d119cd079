r"""Fine-tuning of one model on one task; the fine-tuned model is saved.

    jepa-text finetune --model=runs/a --task=mine.jsonl \
      --workdir=runs/tuned

Model and task are given as in configs/evaluate.py; `,small` trains for at most 50 steps.
A task with further options is set on the command line:

    --config.task="{'name': 'labeled', 'path': 'a.csv', 'text': 'a', 'label': 'b'}"
"""

from ml_collections import ConfigDict

from jepa_text.settings import config_file


def get_config(chosen='task=bundled'):
    """Returns the config with the model and the task of the argument."""
    named = chosen.replace('model=', 'models=').replace('task=', 'tasks=')
    examined = config_file.shared('evaluate').get_config(named)
    config = ConfigDict()
    if len(examined.models) > 1 or len(examined.tasks) > 1:
        raise ValueError(f'{chosen!r} must name one model and one task.')
    if examined.models:
        config.model = examined.models[0]
    config.task = examined.tasks[0]
    if 'finetuning' in examined:
        config.finetuning = examined.finetuning
    return config
