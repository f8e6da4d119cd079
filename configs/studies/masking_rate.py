"""Masking rate of MLM, alone and after CLM: Tables 2-5 and Figure 7 of arXiv 2507.00994.

    jepa-text study studies/masking_rate:scale=desk \\
        --workdir=runs/rate

MLM at four masking rates and CLM, 42,000 steps each; and, at each rate, 40,000 steps of
CLM with 2,000 steps of MLM, during which the learning rate decays. The paper scale also
has 210m and 1b.
"""

from typing import Literal

from jepa_text.settings.config_file import shared

RATES = (0.2, 0.3, 0.4, 0.5)
STEPS = 42_000


def get_config(*, scale: Literal['paper', 'desk', 'smoke'] = 'desk', seeds=0):
    """Returns the config of the study at a scale."""
    config, scale = shared('scales').begun('masking_rate', scale, seeds)
    runs = [scale.run(f'mlm{100 * rate:.0f}', STEPS, rate=rate) for rate in RATES]
    runs.append(scale.run('clm', STEPS, STEPS))
    for rate in RATES:
        runs.append(scale.run(f'clm_mlm{100 * rate:.0f}', STEPS, 40_000, rate))
    for size in ('210m', '1b') if scale.name == 'paper' else ():
        model = dict(config.model) | dict(preset=size)
        for run in runs[:5]:
            runs.append(run | dict(name=f'{run["name"]}_{size}', model=model))
    config.runs = tuple(runs)
    return config
