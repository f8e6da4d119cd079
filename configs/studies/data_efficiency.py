"""Data efficiency of MLM and CLM: Tables 6 to 9 of arXiv 2507.00994.

    jepa-text study studies/data_efficiency:scale=desk \\
        --workdir=runs/efficiency

MLM and CLM after 1,000 to 40,000 of 42,000 steps, before any decay: one trunk each, whose
checkpoints are evaluated.
"""

from typing import Literal

from jepa_text.settings.config_file import shared

STEPS = (40_000, 20_000, 10_000, 5_000, 2_000, 1_000)


def get_config(*, scale: Literal['paper', 'desk', 'smoke'] = 'desk', seeds=0):
    """Returns the config of the study at a scale."""
    config, scale = shared('scales').begun('data_efficiency', scale, seeds)
    # The schedule of the whole run: shorter runs end before its decay.
    config.schedule = scale.wsd(steps=scale.steps(42_000))
    config.runs = tuple(
        scale.run(f'{name}_{steps // 1000}k', steps, steps if name == 'clm' else 0)
        for name in ('mlm', 'clm')
        for steps in STEPS
    )
    return config
