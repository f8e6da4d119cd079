"""What is measured, and in which order: shapes of models, cells of speed, and runs."""

from pathlib import Path

from jepa_text.config import schema
from jepa_text.cost import hardware
from jepa_text.models.attention import attend
from jepa_text.planning import benchmark, cells

# Of models as large as those of the papers, and of small ones, to try all of it on a CPU.
LARGE = dict(length=cells.LENGTH, vocabulary=cells.VOCABULARY, rows=cells.ROWS)
SMALL = dict(length=128, vocabulary=1024, rows={'tiny': 8, 'toy': 8})
# Minutes in all, and the sizes: the first is looked at from all sides.
ON_CPU = (3, ('tiny', 'toy'))
ON_ACCELERATOR = (10, cells.SIZES)
REMATS = ('none', 'full', 'dots')
# How the answer of a kernel begins that does not take a question.
CANNOT = 'cannot: '


def shapes(size):
    """{'length', 'vocabulary', 'rows'} of the cells of a size, rows of a device.

    Raises ValueError for a size that is not among those."""
    for known in (LARGE, SMALL):
        if size in known['rows']:
            return {**known, 'rows': known['rows'][size]}
    names = ', '.join((*LARGE['rows'], *SMALL['rows']))
    raise ValueError(f'{size!r} is no size; there are: {names}.')


def speeds(sizes, platform, devices, kind):
    """Cases of benchmark.py on so many devices of a kind, the most important first: the
    first size by itself and by transformers, the other sizes, what the papers train, then
    each backend of attention, rematerialization and batch, and at last the rest."""
    first, *others = sizes
    rows = shapes(first)['rows']
    asked = [
        (first, 'mlm', {}),
        (first, 'mlm', {'side': 'transformers'}),
        *((size, 'mlm', {}) for size in others),
        (first, 'hybrid', {}),
        (first, 'clm', {}),
        *((first, 'mlm', {'attention': x}) for x in attend.FASTEST[platform]),
        *((first, 'mlm', {'remat': x}) for x in REMATS),
        *((first, 'mlm', {'rows': x}) for x in (2 * rows, rows // 2)),
        *((size, 'mlm', {'side': 'transformers'}) for size in others),
        (first, 'clm', {'side': 'transformers'}),
        *((size, 'hybrid', {}) for size in others),
        *((first, x, {}) for x in cells.OBJECTIVES if x not in ('mlm', 'clm', 'hybrid')),
        *((size, 'clm', {}) for size in others),
    ]
    remat = 'none' if platform == 'cpu' else 'names'
    model = dict(dtype=dtype(platform, kind), remat=remat)
    return [case(model, devices, *one) for one in asked]


def dtype(platform, kind):
    """What steps compute in: float32 on a CPU, and on a GPU before those of 2020."""
    name = hardware.name_of(kind)
    capability = hardware.CHIPS[name].capability if name else None
    old = capability is not None and capability < (8, 0)
    return 'float32' if platform == 'cpu' or old else 'bfloat16'


def case(model, devices, size, objective, changes):
    """A case of benchmark.py, whole, on all devices; what is asked for by name may be
    what cannot be made here."""
    shape = shapes(size) | {'rows': changes.get('rows', shapes(size)['rows'])}
    side = changes.get('side', 'ours')
    named = {key: x for key, x in changes.items() if key in ('attention', 'remat')}
    what = [f'{key} {x}' for key, x in named.items()]
    what += [f'{changes["rows"]} rows'] if 'rows' in changes else []
    name = ', '.join((f'{size} {objective}', *what))
    # By transformers on one device, so that it is its speed there.
    ways = devices if side == 'ours' else 1
    one = dict(
        name=name if side == 'ours' else f'{name} by {side}',
        objective=cells.OBJECTIVES[objective],
        side=side,
        optional=bool(changes),
        vocab_size=shape['vocabulary'],
        rows=ways * max(1, shape['rows']),
        row_length=shape['length'],
        model=dict(name='transformer', preset=size) | model | named,
        mesh=dict(data=1, fsdp=ways, tensor=1),
        peer_attention='flash',
        telemetry=dict(every=0),
        steps_a_round=10,
    )
    return benchmark.checked(schema.resolved(benchmark.Config, {'cases': (one,)}))[0]


def run(size, rows, steps, folder, **model):
    """A train config of MLM on the bundled corpus; its words are made as many as those of
    the papers where the model is as large as theirs. Runs of one row length share their
    rows, in `folder`."""
    shape, large = shapes(size), size in LARGE['rows']
    if large:
        model |= dict(remat='names', vocab_rows=shape['vocabulary'])
    return dict(
        name='accelerator',
        seed=0,
        steps=steps,
        prepare=dict(
            source=dict(name='bundled'), tokenizer='bundled', row_length=shape['length']
        ),
        data=dict(folder=str(Path(folder, f'rows-{shape["length"]}')))
        | dict(row_length=shape['length'], batch_size=rows, repeat=True),
        model=dict(name='transformer', preset=size, attention='auto') | model,
        optimizer=dict(name='adamw', b1=0.9, b2=0.95, weight_decay=0.1),
        schedule=dict(name='wsd', peak=5e-4 if large else 3e-3, warmup=10, decay=0),
        clip_norm=1.0,
        accumulate=1,
        stop_after_skips=10,
        mesh=dict(data=-1, fsdp=1, tensor=1),
        log_every=5 if large else 1,
        telemetry=dict(every=0, on_collapse='warn'),
        evaluate=dict(every=0, rate=0.15, max_rows=16),
        checkpoint=dict(every=0, keep=1),
        phases=[dict(objective=dict(name='mlm', rate=0.3))],
    )


def words(question):
    """A question to a kernel, for people."""
    ways = 'causal' if question['causal'] else 'bidirectional'
    ways += '' if question['window'] is None else f', window {question["window"]}'
    shape = f'{question["length"]} x {question["head_width"]}'
    return f'{question["dtype"]}, {shape}, {ways}'
