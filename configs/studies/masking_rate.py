"""Which share of the tokens to mask, and what CLM first does to it: Tables 2 to 5 and
Figure 7 of arXiv 2507.00994.

    jepa-text study --config=configs/studies/masking_rate.py:scale=desk \\
        --workdir=runs/rate

MLM at four rates and CLM, 42,000 steps each; and 40,000 of CLM with 2,000 of MLM, which
are its decay, at each rate. At paper scale at 210m and 1b, too.
"""

from jepa_text.config.config_file import shared

RATES = (0.2, 0.3, 0.4, 0.5)
STEPS = 42_000


def get_config(argument='scale=desk'):
    """'scale=paper', 'scale=desk' or 'scale=smoke', and ',seeds=5'."""
    config, scale = shared('scales').begun('masking_rate', argument)
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
