"""Six sets to fine-tune models on, each beside controls: what is an encoder worth?

    jepa-text evaluate six_sets:models=runs/small --workdir=runs/six

The sets are those that launch/small_corpus.py writes to `sets`; `only=trec,films` are
some of them. Four learning rates with two seeds each, five seeds at the rate that is best
on validation, at most 300 steps of 32 rows of 128 tokens: at most 9,600 examples, from
which the controls learn, too. So few steps need a head that learns faster than the rest:
ten times, and from vectors of unit size (LOG.md). Controls are TF-IDF, the bag of the
model's own embeddings, the network with random weights, and the most frequent tag of a
word. A further model, as hf:FOLDER, is compared with the first.
"""

from ml_collections import ConfigDict

from jepa_text.settings import resolve

# Sections of tasks; paths are below `sets`. A folder has its own test set; of the others
# 40 % are the test set.
TASKS = {
    'trec': dict(name='labeled', path='trec.jsonl'),
    'films': dict(name='labeled', path='films.jsonl'),
    '20newsgroups': dict(name='labeled', path='20newsgroups'),
    'reuters-r52': dict(name='labeled', path='reuters-r52'),
    'brown_pos': dict(name='tags', path='brown_pos.jsonl'),
    'boolq': dict(name='labeled', path='boolq.jsonl', second='second'),
}

# Mean over tokens and a layer with GELU, as a EuroBERT has, for models of any family.
FINETUNING = dict(steps=300, epochs=100, head_rate=10.0, max_length=128)
FINETUNING |= dict(unit_norm=True, pool='mean', act='gelu')
RATES = (1e-4, 3e-4, 1e-3, 3e-3)


def tasks(sets, only=()):
    """Returns the sections of the tasks named in `only`, or of all."""
    for name in only:
        resolve.check_choice('only', name, TASKS)
    chosen = (TASKS[name] for name in only or TASKS)
    return tuple(one | dict(path=f'{sets}/{one["path"]}') for one in chosen)


def get_config(*, models=(), sets='runs/small-corpus/sets', only=()):
    """Returns the config of an evaluation of models on the sets."""
    config = ConfigDict(dict(models=tuple(models), tasks=tasks(sets, only)))
    config.learning_rates, config.seeds, config.search_seeds = RATES, 5, 2
    config.train, config.test = 9600, 3000
    config.finetuning = FINETUNING
    config.controls = ('words', 'untrained')
    return config
