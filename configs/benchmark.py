"""Timing of training steps against each other on this machine.

    jepa-text benchmark --config=benchmark:objectives --workdir=runs/objectives

The argument is a comparison: one of CASES, or a sweep and its values, as in
`batch,16,32,64` or `attention,xla,cudnn` (by default, those in SWEEPS). At a larger
size, such as on a GPU:

    --config.model.preset=210m --config.model.dtype=bfloat16 --config.vocab_size=128256
    --config.row_length=2048 --config.rows=16
"""

from ml_collections import ConfigDict

MLM = dict(name='mlm', rate=0.4)
CLM = dict(name='clm')
HYBRID = dict(name='hybrid', mlm=dict(rate=0.4), predictor='mlp', predictor_width=768)


def _case(name, objective, against=None, side='ours', **changes):
    return dict(name=name, side=side, objective=objective, against=against, **changes)


CASES = {
    # Against transformers and PyTorch, on the same batches.
    'peer': (
        _case('mlm by transformers', MLM, side='transformers'),
        _case('mlm', MLM, 'mlm by transformers'),
        _case('clm by transformers', CLM, side='transformers'),
        _case('clm', CLM, 'clm by transformers'),
    ),
    # The cost of each objective relative to MLM.
    'objectives': (
        _case('mlm', MLM),
        _case('clm', CLM, 'mlm'),
        _case('hybrid', HYBRID, 'mlm'),
        _case('ijepa', dict(name='ijepa', mlm=dict(rate=0.4), masks=1), 'mlm'),
    ),
}

# {option: its values}. The first value is the baseline.
SWEEPS = {
    'attention': ('xla', 'blockwise'),
    'remat': ('none', 'dots', 'names', 'full'),
    'batch': (4, 8, 16, 32),
}


def _sweep(name, values):
    """Returns a case of MLM per value."""
    cases = []
    for value in values or SWEEPS[name]:
        change = {'rows': int(value)} if name == 'batch' else {'model': {name: value}}
        first = cases[0]['name'] if cases else None
        cases.append(_case(f'{name} {value}', MLM, first, **change))
    return tuple(cases)


def get_config(argument='peer'):
    """Returns the config of one comparison, such as 'objectives' or 'batch,16,32'."""
    name, *values = argument.split(',')
    if name not in SWEEPS and (name not in CASES or values):
        raise ValueError(f'{argument!r} is not one of {", ".join([*CASES, *SWEEPS])}.')
    if name == 'batch' and not all(value.isdecimal() for value in values):
        raise ValueError(f'{argument!r}: batches are numbers of rows, as batch,16,32.')
    config = ConfigDict()
    config.name = name
    config.telemetry = dict(every=0)
    config.cases = _sweep(name, values) if name in SWEEPS else CASES[name]
    return config
