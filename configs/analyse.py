"""What vectors of models look like, and what can be read off them, with controls.

    jepa-text analyse --config=configs/analyse.py:models=runs/a,hf:NAME --workdir=runs/x

The argument names models and tasks, as in

    models=runs/a-0,runs/a-1,hf:NAME,tasks=bundled,sst2@GLUE/SST-2,sentences@word_order

A model is the workdir of a run, or hf: and a name or folder; runs that differ by a last
number are seeds of one. A task is a file of jepa_text/evaluation/tasks, or a task of its
glue.py, with @ and its path. Tasks that take more, as the fields of `labelled`, are
written into this file.
"""

from ml_collections import ConfigDict

LISTS = ('models', 'tasks')


def get_config(chosen=''):
    """Sizes, and the models and tasks of the argument."""
    named = _parse(chosen)
    config = ConfigDict()
    config.name = 'analysis'
    config.seed = 0
    config.models = tuple(named['models'])
    config.tasks = tuple(_task(text) for text in named['tasks'] or ['bundled'])
    # () is all of them; 0 is the embedding, -1 the last.
    config.layers = ()
    # The first is measured in every layer.
    config.poolings = ('mean', 'max', 'cls', 'last4', 'attention')
    # Examples that probes learn from, and that everything is measured on; drawn by seed.
    config.train = 1500
    config.test = 1000
    # Random halves of the test texts behind the intervals of geometry; 0: no intervals.
    config.halves = 16
    config.controls = ('untrained', 'bag of embeddings', 'TF-IDF')
    # Features are kept in the workdir; 'private': in the user's cache, for all analyses.
    config.cache = ''
    # 0: as many as there are cores.
    config.threads = 0
    return config


def _parse(chosen):
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


def _task(text):
    name, _, path = text.partition('@')
    if name == 'sentences':
        return dict(name=name, made=path)
    return dict(name=name, path=path) if path else dict(name=name)
