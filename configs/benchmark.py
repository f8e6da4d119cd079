"""Timing of training steps against each other on this machine.

    jepa-text benchmark benchmark:objectives --workdir=runs/objectives

The first word is a comparison: of the objectives, or with transformers and PyTorch. For
other rows, attention backends or rematerialization, run it again with --config.rows=16 or
--config.model.attention=cudnn, or give --config.cases. At a larger size, as on a GPU:

    --config.model.preset=210m --config.model.dtype=bfloat16 --config.vocab_size=128256
    --config.row_length=2048 --config.rows=16
"""

from typing import Literal

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
        _case('its masked head', MLM, 'mlm', side='transformers', masked_head=True),
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


def get_config(comparison: Literal[*CASES] = 'peer'):
    """Returns the config of one comparison."""
    config = ConfigDict()
    config.name = comparison
    config.telemetry = dict(every_steps=0)
    config.cases = CASES[comparison]
    return config
