"""One run on the bundled corpus, at a desk: about two minutes on two cores.

    jepa-text train --config=configs/desk.py:clm_mlm --workdir=runs/clm_mlm

The argument is one of PRESETS below, the ways to pretrain that the papers and their
successors describe, at the size of the quickstart.
"""

import importlib.util
from pathlib import Path

from ml_collections import ConfigDict

CLM = dict(name='clm', tied=True)
MLM = dict(name='mlm', rate=0.3, tied=True)
TOKENS = dict(rate=0.3, tied=True)

PRESETS = {
    'clm': (dict(objective=CLM),),
    'mlm': (dict(objective=MLM),),
    # arXiv 2507.00994: a quarter, or half, of CLM, then MLM, in one run.
    'clm_mlm': (dict(share=0.25, objective=CLM), dict(objective=MLM)),
    'clm_mlm_half': (dict(share=0.5, objective=CLM), dict(objective=MLM)),
    # Both at once, row by row: named as future work there.
    'mixture': (dict(objective=dict(name='mixture', parts=(CLM, MLM), shares=(1, 3))),),
    # After a quarter of CLM: JEPA + MLM on one masked forward.
    'clm_jepa_mlm': (
        dict(share=0.25, objective=CLM),
        dict(
            objective=dict(
                name='hybrid',
                mlm=TOKENS,
                latent=dict(momentum=dict(name='linear', start=0.99, end=1.0)),
            )
        ),
    ),
    # The same from the start; each loss moves the encoder as much as the other.
    'jepa_mlm': (
        dict(
            objective=dict(
                name='hybrid',
                mlm=TOKENS,
                balance=dict(name='gradient_ratio', ratio=0.5),
                latent=dict(momentum=dict(name='linear', start=0.99, end=1.0)),
            )
        ),
    ),
    # arXiv 2606.05173 as described, faults mended: I-JEPA's blocks, 15 % of 80/10/10,
    # EMA 0.996 to 1, lambda learned and clamped.
    'jepa_mlm_paper': (
        dict(
            objective=dict(
                name='ijepa',
                mlm=dict(rate=0.15, mask_share=0.8, random_share=0.1, tied=True),
                masks=1,
                balance=dict(name='sigmoid'),
                predictor_width=96,
            )
        ),
    ),
    # arXiv 2202.03555, with words as a second loss: spans of 4, averaged layers.
    'data2vec': (
        dict(
            objective=dict(
                name='hybrid',
                mlm=dict(rate=0.35, sampler='span', span_length=4, tied=True),
                latent=dict(
                    top=3,
                    distance='smooth_l1',
                    beta=4.0,
                    ema='layers',
                    momentum=dict(name='linear', start=0.99, end=0.999),
                ),
            )
        ),
    ),
    # arXiv 2511.08544: no EMA and no stop-gradient; SIGReg keeps the latents apart.
    'lejepa_mlm': (
        dict(
            objective=dict(
                name='hybrid',
                mlm=TOKENS,
                latent=dict(
                    momentum=None,
                    stop_gradient=False,
                    distance='mse',
                    regularise=dict(name='sigreg', weight=0.05),
                ),
            )
        ),
    ),
    # Two mask rates of one text as its views.
    'sentence': (dict(objective=dict(name='sentence', mlm=TOKENS)),),
}


def get_config(preset='clm_mlm'):
    """The shared keys of configs/quickstart.py with the phases of a preset."""
    if preset not in PRESETS:
        raise ValueError(f'{preset!r} is not one of {", ".join(PRESETS)}.')
    config = _quickstart()
    del config.runs, config.study
    config.name = preset
    config.phases = PRESETS[preset]
    config.data.folder = 'runs/rows-64'
    return config


def _quickstart():
    path = Path(__file__).with_name('quickstart.py')
    spec = importlib.util.spec_from_file_location('quickstart', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return ConfigDict(module.get_config())
