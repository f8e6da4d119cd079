"""Fine-tuning of models on tasks for every learning rate and seed, with statistics.

    jepa-text evaluate --config=evaluate:ARGUMENT --workdir=runs/exam

The argument lists models and tasks, for example

    models=runs/a-0,runs/a-1,hf:NAME,tasks=sst2@GLUE/SST-2,mine.jsonl

A model is the workdir of a run, or hf: followed by a name or folder. A task is a file of
jepa_text/evaluation/tasks or a name of one of its tables, followed by @ and its path; or
a file of your own with the usual field names, such as `text` and `label`. The grid of the
paper is 6 learning rates x 5 seeds; `,small` reduces it to 2 x 2 runs of 50 steps, for a
test. A task with further options is set on the command line:

    --config.tasks="({'name': 'labeled', 'path': 'a.csv', 'text': 'a', 'label': 'b'},)"
"""

from jepa_text.settings import config_file


def get_config(chosen='tasks=bundled'):
    """Returns the config with the models and tasks of the argument."""
    words = [word for word in chosen.split(',') if word != 'small']
    config = config_file.shared('analyze').get_config(','.join(words))
    if 'small' in chosen.split(','):
        config.learning_rates, config.seeds = (1e-4, 5e-4), 2
        config.finetuning = dict(steps=50)
    return config
