"""Does JEPA in addition to MLM help? arXiv 2606.05173 with fair baselines.

    jepa-text study studies/jepa_vs_mlm:scale=desk --workdir=runs/jepa

Every balance of the two losses is compared with MLM at equal FLOPs, and two with MLM at
equal steps. The paper scale has its 35M parameters and 300,000 steps. The paper compares
single runs at equal steps, where its hybrid takes 2.0 to 3.6 times the FLOPs.
"""

from typing import Literal

from jepa_text.settings.config_file import shared

BALANCES = {
    'sigmoid': dict(name='sigmoid'),  # learned as in the paper, but clipped
    'gradient_ratio': dict(name='gradient_ratio', ratio=0.5),
    'fixed': dict(name='fixed', weight=0.5),
    'scheduled': dict(name='schedule', of=dict(name='linear', start=0.8, end=0.2)),
}


def get_config(*, scale: Literal['paper', 'desk', 'smoke'] = 'desk', seeds=0):
    """Returns the config of the study at a scale."""
    config, scale = shared('scales').begun(
        'jepa_vs_mlm', scale, seeds, preset='jepa_mlm_paper', size='35m'
    )
    if scale.name == 'paper':
        config.plan.hardware = 'h100'
        config.examine = dict(SC=dict(tasks=(dict(name='sst2', path='sets/sst2'),)))
    else:
        config.steps = scale.steps(40_000)
    tasks = ('word_order', 'bigram_shift', 'word_content')
    config.study = dict(tasks=tasks if scale.name != 'smoke' else tasks[:1])
    # Baselines come first, so that an unfinished study has them.
    # As in the paper: 15% of the tokens, replaced 80/10/10.
    mlm = dict(name='mlm', **_hybrid(scale, 'sigmoid')['objective']['mlm'])
    config.runs = (
        dict(name='mlm', phases=(dict(objective=mlm),)),
        dict(name='mlm_flops', phases=(_hybrid(scale, 'sigmoid'),), baseline='flops'),
        *(dict(name=name, phases=(_hybrid(scale, name),)) for name in BALANCES),
    )
    # Equal FLOPs for each; equal steps too for the paper's balance and for ours.
    pairs = [(name, 'mlm_flops') for name in BALANCES]
    pairs += [(name, 'mlm') for name in ('sigmoid', 'gradient_ratio')]
    config.report.compare = tuple(pairs)
    return config


def _hybrid(scale, balance):
    """Returns the phase `jepa_mlm_paper` of configs/presets.py with another balance."""
    wide = dict(predictor_width=192, predictor_depth=6, predictor_heads=8)
    (phase,) = shared('presets').presets(
        sampler='iid',
        tied=scale.tied,
        paper_predictor=wide if scale.name == 'paper' else dict(predictor_width=96),
    )['jepa_mlm_paper']
    return dict(objective=phase['objective'] | dict(balance=BALANCES[balance]))
