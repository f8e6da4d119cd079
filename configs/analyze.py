"""Analysis of the representations of models, with controls.

    jepa-text analyze --model=runs/a,hf:NAME --workdir=runs/x

The argument lists models and tasks, for example

    models=runs/a-0,runs/a-1,hf:NAME,tasks=bundled,sst2@GLUE/SST-2,sentences@word_order

A model is the workdir of a run, or hf: followed by a name or folder. Runs whose names
differ only in a final number are seeds of one model. A task is a file of
jepa_text/evaluation/tasks, or a task of its glue.py, followed by @ and its path. Tasks
with further options, such as the fields of `labeled`, are set in a copy of this file.
"""

from ml_collections import ConfigDict

from jepa_text.evaluation import tasks

LISTS = ('models', 'tasks')


def get_config(chosen=''):
    """Returns the config with the models and tasks of the argument."""
    named = parsed(chosen)
    config = ConfigDict()
    config.models = tuple(named['models'])
    config.tasks = tuple(tasks.section_of(text) for text in named['tasks'] or ['bundled'])
    return config


def parsed(chosen):
    """Parses 'models=a,b,tasks=c' into {'models': [...], 'tasks': [...]}."""
    named, key = {name: [] for name in LISTS}, 'models'
    for word in filter(None, chosen.split(',')):
        head, _, rest = word.partition('=')
        if head in LISTS:
            key, word = head, rest
        elif rest and '@' not in head and '/' not in head:
            raise ValueError(f'{head!r} is not one of {", ".join(LISTS)}.')
        named[key].append(word)
    return named
