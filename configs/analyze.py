"""What vectors of models look like, and what can be read off them, with controls.

    jepa-text analyze --config=configs/analyze.py:models=runs/a,hf:NAME --workdir=runs/x

The argument names models and tasks, as in

    models=runs/a-0,runs/a-1,hf:NAME,tasks=bundled,sst2@GLUE/SST-2,sentences@word_order

A model is the workdir of a run, or hf: and a name or folder; runs that differ by a last
number are seeds of one. A task is a file of jepa_text/evaluation/tasks, or a task of its
glue.py, with @ and its path. Tasks that take more, as the fields of `labeled`, are
written into this file.
"""

from ml_collections import ConfigDict

from jepa_text.evaluation import tasks

LISTS = ('models', 'tasks')


def get_config(chosen=''):
    """The models and tasks of the argument."""
    named = parsed(chosen)
    config = ConfigDict()
    config.models = tuple(named['models'])
    config.tasks = tuple(tasks.section_of(text) for text in named['tasks'] or ['bundled'])
    return config


def parsed(chosen):
    """{'models': [...], 'tasks': [...]} of 'models=a,b,tasks=c'."""
    named, key = {name: [] for name in LISTS}, 'models'
    for word in filter(None, chosen.split(',')):
        head, _, rest = word.partition('=')
        if head in LISTS:
            key, word = head, rest
        elif rest and '@' not in head and '/' not in head:
            raise ValueError(f'{head!r} is not one of {", ".join(LISTS)}.')
        named[key].append(word)
    return named
