"""Analysis of the representations of models, with controls.

    jepa-text analyze --model=runs/a,hf:NAME --workdir=runs/x

or with models and tasks as arguments:

    analyze:models=runs/a-0,runs/a-1,hf:NAME,tasks=bundled,sst2@GLUE/SST-2,mine.jsonl

A model is small, a run, a folder of finetune or save, or hf: and a name or folder. Runs
whose names differ only in a final number are seeds of one model. A task is a file of
jepa_text/evaluation/tasks or a name of one of its tables, followed by @ and its path; or
a file of your own. One with further options is set on the command line:

    --config.tasks="({'name': 'labeled', 'path': 'a.csv', 'text': 'a', 'label': 'b'},)"
"""

from ml_collections import ConfigDict

from jepa_text.evaluation import tasks as sections


def get_config(*, models=(), tasks=('bundled',)):
    """Returns the config of an analysis of models on tasks."""
    config = ConfigDict()
    config.models = tuple(models)
    config.tasks = tuple(map(sections.section_of, tasks))
    return config
