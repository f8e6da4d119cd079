"""Configurations of the accelerator checks: model shapes, benchmark cases, short runs."""

from pathlib import Path

from jepa_text.config import schema
from jepa_text.cost import hardware
from jepa_text.models.attention import attend
from jepa_text.planning import benchmark, cells

# Shapes for models of the papers' sizes, and for small models, to test on a CPU.
LARGE = dict(length=cells.LENGTH, vocabulary=cells.VOCABULARY, rows=cells.ROWS)
SMALL = dict(length=128, vocabulary=1024, rows={'tiny': 8, 'toy': 8})
# (total minutes, sizes); the first size is measured in all variants.
ON_CPU = (3, ('tiny', 'toy'))
ON_ACCELERATOR = (10, cells.SIZES)
REMATS = ('none', 'full', 'dots')
# Prefix of the result of a backend that does not support a request.
UNSUPPORTED = 'cannot: '


def shapes(size):
    """{'length', 'vocabulary', 'rows' per device} of the cases of a size.

    Raises ValueError for an unknown size.
    """
    for known in (LARGE, SMALL):
        if size in known['rows']:
            return {**known, 'rows': known['rows'][size]}
    names = ', '.join((*LARGE['rows'], *SMALL['rows']))
    raise ValueError(f'unknown size {size!r}; known: {names}.')


def speeds(sizes, platform, devices, kind):
    """Cases of benchmark.py on all devices, the most important first: the first size by
    us and by transformers, the other sizes, the papers' objectives, then each attention
    backend, rematerialization and batch size, and finally the other combinations."""
    first, *others = sizes
    rows = shapes(first)['rows']
    variants = [
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
    return [case(model, devices, *variant) for variant in variants]


def dtype(platform, kind):
    """The dtype to compute in: float32 on a CPU and on GPUs before Ampere, else
    bfloat16."""
    name = hardware.name_of(kind)
    capability = hardware.CHIPS[name].capability if name else None
    old = capability is not None and capability < (8, 0)
    return 'float32' if platform == 'cpu' or old else 'bfloat16'


def case(model, devices, size, objective, changes):
    """A resolved case of benchmark.py on all devices. A case with changes is optional, as
    this machine may not support it."""
    shape = shapes(size) | {'rows': changes.get('rows', shapes(size)['rows'])}
    side = changes.get('side', 'ours')
    named = {key: x for key, x in changes.items() if key in ('attention', 'remat')}
    labels = [f'{key} {x}' for key, x in named.items()]
    labels += [f'{changes["rows"]} rows'] if 'rows' in changes else []
    name = ', '.join((f'{size} {objective}', *labels))
    # transformers runs on one device.
    ways = devices if side == 'ours' else 1
    section = dict(
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
    (resolved,) = benchmark.resolve_cases(
        schema.resolved(benchmark.Config, {'cases': (section,)})
    )
    return resolved


def run(size, rows, steps, folder, **model):
    """A train config of MLM on the bundled corpus. For the papers' sizes, the vocabulary
    is padded to theirs. Runs with the same row length share their rows, in `folder`."""
    shape, large = shapes(size), size in LARGE['rows']
    if large:
        model |= dict(remat='names', vocab_rows=shape['vocabulary'])
    return dict(
        name='accelerator',
        steps=steps,
        prepare=dict(
            source=dict(name='bundled'), tokenizer='bundled', row_length=shape['length']
        ),
        data=dict(
            folder=str(Path(folder, f'rows-{shape["length"]}')),
            row_length=shape['length'],
            batch_size=rows,
            repeat=True,
        ),
        model=dict(name='transformer', preset=size) | model,
        schedule=dict(name='wsd', peak=5e-4 if large else 3e-3, warmup=10, decay=0),
        log_every=5 if large else 1,
        telemetry=dict(every=0),
        evaluate=dict(every=0),
        checkpoint=dict(every=0, keep=1),
        phases=[dict(objective=dict(name='mlm', rate=0.3))],
    )


def describe(request):
    """Describes an attention request in a few words."""
    mask = 'causal' if request['causal'] else 'bidirectional'
    mask += '' if request['window'] is None else f', window {request["window"]}'
    shape = f'{request["length"]} x {request["head_width"]}'
    return f'{request["dtype"]}, {shape}, {mask}'
