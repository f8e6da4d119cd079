"""Keys and values of earlier versions, refused with what to write instead."""

CLEANING = (
    *('quality', 'stop_words', 'bad_words', 'repeated_spans', 'near_duplicates'),
    *('permutations', 'ngram', 'max_chars'),
)
OVERLAP = 'it was removed: 13 shared words contaminate a document'
DATATROVE = 'it was removed: clean the texts with datatrove, see docs/guides/cleaning.md'
# Lengths in schedules; below 1, the old key was a fraction.
SCHEDULED = {
    f'{section}.{key}': f'{key}_steps or {key}_fraction'
    for section in ('schedule', 'rate', 'momentum', 'of')
    for key in ('warmup', 'decay', 'first')
}
# {the last two names of a path: the new name}
MOVED = {
    **SCHEDULED,
    'phases.share': 'fraction',
    'at_switch.rewarm': 'rewarm_steps or rewarm_fraction',
    '.log_every': 'log_every_steps',
    **{
        f'{section}.every': 'every_steps'
        for section in ('checkpoint', 'evaluate', 'geometry', 'telemetry', 'balance')
    },
    'checkpoint.keep_at': 'keep_at_steps',
    'watchdog.pause': 'pause_seconds',
    'plan.price': 'dollars_per_chip_hour',
    'finetuning.warmup': 'warmup_fraction',
    **dict.fromkeys(('.warmup', 'cases.warmup'), 'warmup_steps'),
}
# {the last two names of a path, perhaps with =VALUE: what to do}
INSTEAD = {
    **{key: f'it is now {new}' for key, new in MOVED.items()},
    'schedule.again': 'it was removed: use at_switch.rewarm_steps',
    'init_from.layers': 'it was removed: give a start of the same depth',
    'objective.prefix': 'it was removed: use a mixture of clm and mlm',
    'objective.name=sentence': "it was removed: use name='hybrid'",
    '.trace': 'it was removed: use profile_steps of train',
    '.selection': 'it was removed: a rate is selected by its mean over seeds',
    '.compilation_cache': 'it was removed: set JAX_COMPILATION_CACHE_DIR',
    'data.batch_per_device': 'it was removed: set batch_size, of all devices together',
    'checkpoint.keep_every': 'it was removed: list the steps in keep_at_steps',
    'metrics.wandb': 'it was removed: `wandb sync WORKDIR` uploads the event files',
    'watchdog.compile': 'it is now pause_seconds',
    'prepare.workers': 'it is now engine.jobs',
    'prepare.engine=beam': "it was removed: use prepare.engine.name='ray'",
    'prepare.beam': "it was removed: use prepare.engine.name='ray'",
    '.baseline=time': "it was removed: use baseline='flops'",
    'balance.name=softmin': "it was removed: use name='gradient_ratio'",
    'balance.name=normalized': "it was removed: use name='gradient_ratio'",
    'latent.distance=prototypes': "it was removed: use distance='info_nce'",
    **{f'clean.{key}': DATATROVE for key in CLEANING},
    **{f'clean.{key}': OVERLAP for key in ('overlap', 'overlap_words')},
    **{f'clean.{key}': OVERLAP for key in ('min_overlap', 'min_overlap_words')},
    'prepare.packing=one_per_row': "it was removed: use packing='best_fit'",
    '.pattern': 'it was removed: give a tokenizer.json as config.tokenizer',
    'train.kind': 'it was removed: BPE is trained; give others as config.tokenizer',
    '.chosen_from': 'it was removed: give learning_rate, from summary.json',
    'finetuning.layers': 'it was removed: analyze measures frozen encoders',
    'tasks.made=odd_word': 'it was removed: use odd_words',
    'tasks.name=pairs': "it was removed: use name='labeled' with kind='scores'",
    'tasks.group': 'it was removed: give a folder with files train and test',
    'tasks.name=scored': "it was removed: use name='labeled' with kind='scores'",
    'study.label': 'it was removed: evaluate a task of labeled texts',
    'study.sentences': 'it was removed: use load(RUN).fill(text)',
    'objective.predictor=identity': "it was removed: use predictor='mlp'",
    'regularizer.name=visreg': "it was removed: use name='sigreg' or 'vicreg'",
}


def check(value, where='The config', path=('',)):
    """Raises ValueError for the first key or value of an earlier version in a config.

    `value` is a nested dict or ConfigDict at `path`; `where` names it in errors.

    >>> check({'evaluate': {'max_rows': 8}})
    """
    # The task of finetune is checked as tasks, and a run of a study as any other.
    name = '.'.join(path[-2:]).replace('task.', 'tasks.').removeprefix('runs')
    for old in (name, f'{name}={value}' if isinstance(value, str) else name):
        if old in INSTEAD:
            at = '.'.join(path[1:]) + old.removeprefix(name)
            page = 'upgrading' if old in MOVED else 'removed'
            raise ValueError(f'{where} has {at}: {INSTEAD[old]} (docs/{page}.md).')
    for key in value if hasattr(value, 'keys') else ():
        # A schedule of the user's own may have a key `warmup`.
        if f'{path[-1]}.{key}' not in SCHEDULED or '.' not in str(value.get('name')):
            check(value[key], where, (*path, str(key)))
    for item in value if isinstance(value, list | tuple) else ():
        check(item, where, path)


def current(value, section=''):
    """Returns a part of a config of an earlier version with the new names of its keys.

    >>> current({'schedule': {'warmup': 0.1, 'decay': 9}})
    {'schedule': {'warmup_fraction': 0.1, 'decay_steps': 9}}
    """
    if isinstance(value, list | tuple):
        return [current(item, section) for item in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for key, item in value.items():
        new, _, fraction = MOVED.get(f'{section}.{key}', key).partition(' or ')
        is_fraction = fraction and 0 < item < 1
        made[fraction if is_fraction else new] = current(item, key)
    return made
