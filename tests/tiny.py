"""A run small enough for tests, and its end as a hash; also a program that is killed.

python tests/tiny.py FOLDER WORKDIR      trains tiny rows in FOLDER/rows
"""

import copy
import hashlib
import json
import sys
from pathlib import Path

LENGTH = 32


def rows(folder, tokenizer=None):
    """Prepared rows from folder/text.txt, else from made-up text, in folder/rows; the
    tokenizer is the bundled one."""
    from jepa_text.data import prepare, tokenizers

    folder = Path(folder)
    if not (folder / 'rows').exists():
        if not (folder / 'text.txt').exists():
            text = [
                f'The {a} of {b} saw {c}.' for a in NOUNS for b in NOUNS for c in NOUNS
            ]
            (folder / 'text.txt').write_text('\n\n'.join(text))
        prepare.prepare(
            source={'name': 'text', 'path': str(folder / 'text.txt'), 'heldout_every': 9},
            tokenizer=tokenizer or tokenizers.load(tokenizers.BUNDLED),
            folder=folder / 'rows',
            row_length=LENGTH,
            shards=2,
        )
    return str(folder / 'rows')


NOUNS = ('whale', 'captain', 'sister', 'union', 'congress', 'garden', 'harpoon', 'letter')


# Of a run of 24 steps; all but its data, model and phases.
SETTINGS = dict(
    name='tiny',
    seed=0,
    steps=24,
    optimizer=dict(name='adamw'),
    schedule=dict(name='wsd', peak=3e-3, warmup_fraction=0.1, decay_fraction=0.2),
    clip_norm=1.0,
    accumulate=1,
    stop_after_skips=3,
    mesh=dict(data=1, fsdp=1, tensor=-1),
    log_every_steps=1,
    # Diagnostics double the time to compile a step of JEPA.
    telemetry=dict(every_steps=0),
    evaluate=dict(every_steps=8, rate=0.15, max_rows=16),
    checkpoint=dict(every_steps=5, keep=2),
)


def config(folder, **changes):
    """CLM, then the hybrid, 24 steps; keys of the top level may be changed."""
    made = dict(
        data=dict(folder=rows(folder), row_length=LENGTH, batch_size=8, repeat=True),
        model=dict(name='transformer', preset='tiny', depth=1, scan=False),
        phases=(
            dict(fraction=0.5, objective=dict(name='clm')),
            dict(
                objective=dict(
                    name='hybrid', balance=dict(name='sigmoid'), predictor_width=16
                )
            ),
        ),
    )
    # A copy: a test may change what is within a section.
    return copy.deepcopy(SETTINGS | made | changes)


def phases(name, **section):
    """Those of a run of one objective."""
    return (dict(objective=dict(name=name, **section)),)


def train(config, workdir, **options):
    """The run as the command trains it."""
    from jepa_text.training import train

    return train.train(config, workdir, **options)


def fingerprint(state):
    """sha256 of every leaf of a state: parameters, EMA, moments, lambda, counters."""
    import jax
    import numpy as np

    leaves = jax.tree.leaves(jax.device_get(state))
    return hashlib.sha256(b''.join(np.asarray(x).tobytes() for x in leaves)).hexdigest()


def log(workdir):
    """The metrics of a run but for its speed and memory."""
    from jepa_text.running import metrics

    return [
        {k: v for k, v in line.items() if k.split('/')[0] not in ('throughput', 'memory')}
        for line in metrics.read(workdir)
    ]


if __name__ == '__main__':
    import jax

    from jepa_text.parallel import exits, processes

    folder, workdir = sys.argv[1:]
    changes = json.loads(Path(folder, 'changes.json').read_text())
    processes.start()
    try:
        state = train(config(folder, **changes), workdir)
        # Of several processes, none holds the whole state.
        alone = all(leaf.is_fully_addressable for leaf in jax.tree.leaves(state))
        print(fingerprint(state) if alone else int(state.step))
    except exits.Stopped as stopped:
        print(stopped, file=sys.stderr)
        sys.exit(exits.RESUME)
