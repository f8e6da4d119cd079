"""Test matrix of the compile suite: objectives, sizes, attention backends and meshes.

A pairwise cover for GPUs, and splash attention on TPUs.
"""

import itertools

# Sections of objectives; those of the papers at the study's mask rate.
OBJECTIVES = {
    'mlm': dict(name='mlm', rate=0.4),
    'clm': dict(name='clm'),
    'mntp': dict(name='mntp', rate=0.4),
    'mixture': dict(name='mixture', parts=[dict(name='clm'), dict(name='mlm', rate=0.4)]),
    'hybrid': dict(name='hybrid', mlm=dict(rate=0.4), predictor_width=1024),
    'ijepa': dict(name='ijepa', masks=1, mlm=dict(rate=0.15)),
    'sentence': dict(name='sentence', mlm=dict(rate=0.4)),
}
SIZES = ('210m', '610m', '1b')
BACKENDS = ('cudnn', 'pallas', 'tokamax', 'xla', 'blockwise')
# (hardware, mesh)
LAYOUTS = {
    '1': ('h200:1', dict(data=1, fsdp=1, tensor=1)),
    'fsdp 8': ('h200:8', dict(data=1, fsdp=8, tensor=1)),
    'fsdp 4 x tensor 2': ('h200:8', dict(data=1, fsdp=4, tensor=2)),
    '2 hosts x fsdp 8': ('h200:16', dict(data=2, fsdp=8, tensor=1, dcn_data=2)),
}
TPU_LAYOUTS = {
    'v5p fsdp 8': ('v5p:8', dict(data=1, fsdp=8, tensor=1)),
    'v6e fsdp 8': ('v6e:8', dict(data=1, fsdp=8, tensor=1)),
}
# Rows per device. `xla` gets fewer: it stores the scores of a layer, row length squared.
ROWS = {'210m': 16, '610m': 8, '1b': 8}
FEWER = {'xla': 4}
LENGTH, VOCABULARY = 2048, 128_256


def is_supported(objective, size, backend, layout):
    """Whether a combination can be configured: rows of several objectives need an order
    for each row, which kernels do not support."""
    kernel = backend in ('cudnn', 'pallas', 'tokamax', 'splash')
    return not (objective == 'mixture' and kernel)


def cover():
    """Cells (objective, size, backend, layout) that contain every supported pair of two
    values at least once.

    For H200s, greedily chooses the cell with the most new pairs; then adds each objective
    and each size for TPUs.
    """
    factors = (OBJECTIVES, SIZES, BACKENDS, LAYOUTS)
    cells = [cell for cell in itertools.product(*factors) if is_supported(*cell)]
    missing = set().union(*map(_pairs, cells))
    chosen = []
    while missing:
        # Of equally good cells max() takes the first: smaller models compile faster.
        best = max(cells, key=lambda cell: len(_pairs(cell) & missing))
        chosen.append(best)
        missing -= _pairs(best)
    return chosen + tpu_cells()


def tpu_cells():
    """Cells with splash attention: each objective once, each size on both chips."""
    objectives = [name for name in OBJECTIVES if name != 'mixture']
    variants = itertools.product(SIZES, TPU_LAYOUTS)
    return [
        (objective, size, 'splash', layout)
        for objective, (size, layout) in zip(objectives, variants, strict=True)
    ]


def _pairs(cell):
    return set(itertools.combinations(enumerate(cell), 2))


def config(objective, size, backend, layout):
    """(train config, hardware) of a cell, with the settings of configs/pretrain.py."""
    hardware, mesh = (LAYOUTS | TPU_LAYOUTS)[layout]
    rows = min(ROWS[size], FEWER.get(backend, ROWS[size]))
    ways = mesh['data'] * mesh['fsdp']
    model = dict(name='transformer', preset=size, attention=backend)
    return {
        'name': 'cell',
        'steps': 42_000,
        'data': dict(folder='', row_length=LENGTH, batch_size=rows * ways),
        'model': model | dict(dtype='bfloat16', remat='names'),
        'optimizer': dict(name='adamw', eps=1e-5),
        'schedule': dict(name='wsd', peak=5e-4, warmup=2000, decay=2000),
        'mesh': mesh,
        'telemetry': dict(every=0),
        'phases': [dict(objective=OBJECTIVES[objective])],
    }, hardware
