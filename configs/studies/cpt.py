"""Continued pretraining of a decayed model with MLM: Tables 14 to 17 of arXiv 2507.00994.

    jepa-text study studies/cpt:scale=desk --workdir=runs/cpt-study

42,000 decayed steps of MLM or CLM, followed by 2,000, 12,000 or 22,000 steps of MLM. The
learning rate returns to its peak at once and decays over the last 2,000 steps, so that
2,000 steps only decay; Adam's moments are kept. The paper does not specify any of this.
"""

from typing import Literal

from jepa_text.settings.config_file import shared

FIRST = 42_000
FURTHER = (22_000, 12_000, 2_000)


def get_config(*, scale: Literal['paper', 'desk', 'smoke'] = 'desk', seeds=0):
    """Returns the config of the study at a scale."""
    config, scale = shared('scales').begun('cpt', scale, seeds)
    again = scale.wsd(name='wsd_twice', first_steps=scale.steps(FIRST))
    runs = []
    for name, clm in (('mlm', 0), ('clm', FIRST)):
        runs.append(scale.run(f'{name}_0', FIRST, clm))
        for steps in FURTHER:
            own = scale.run(f'{name}_{steps // 1000}k', FIRST + steps, clm)
            runs.append(own | dict(schedule=again))
    config.runs = tuple(runs)
    return config
