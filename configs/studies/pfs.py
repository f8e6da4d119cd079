"""Pretraining from scratch, CLM then MLM: Tables 10 to 13 of arXiv 2507.00994.

    jepa-text study studies/pfs:scale=desk --workdir=runs/pfs

Three budgets with five shares of CLM each, at equal steps. Common prefixes of the runs
are trained once: at paper scale, 206,000 of the 380,000 steps of the grid, or 122,000
without the two runs of 42,000 steps of a single objective, which the paper had trained
before.
"""

from typing import Literal

from jepa_text.settings.config_file import shared

# {steps: steps after which CLM ends}
BUDGETS = {
    42_000: (10_000, 21_000, 32_000),
    22_000: (5_000, 11_000, 17_000),
    12_000: (3_000, 6_000, 9_000),
}


def get_config(*, scale: Literal['paper', 'desk', 'smoke'] = 'desk', seeds=0):
    """Returns the config of the study at a scale."""
    config, scale = shared('scales').begun('pfs', scale, seeds)
    runs = []
    for steps, switches in BUDGETS.items():
        named = zip(('mlm', 'clm25', 'clm50', 'clm75', 'clm'), (0, *switches, steps))
        for name, clm in named:
            runs.append(scale.run(f'{name}_{steps // 1000}k', steps, clm))
    config.runs = tuple(runs)
    return config
