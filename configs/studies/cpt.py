"""A decayed model goes on with MLM: Tables 14 to 17 of arXiv 2507.00994.

    jepa-text study --config=configs/studies/cpt.py:scale=desk --workdir=runs/cpt-study

From 42,000 decayed steps of MLM or of CLM, 2,000, 12,000 and 22,000 more of MLM. The
rate is back at its peak at once and decays over the last 2,000, so that 2,000 steps only
decay; the moments of Adam are kept. The paper states none of the three.
"""

from jepa_text.config.config_file import shared

FIRST = 42_000
FURTHER = (22_000, 12_000, 2_000)


def get_config(argument='scale=desk'):
    """'scale=paper', 'scale=desk' or 'scale=smoke', and ',seeds=5'."""
    config, scale = shared('scales').begun('cpt', argument)
    again = scale.wsd(name='wsd_twice', first=scale.steps(FIRST))
    runs = []
    for name, clm in (('mlm', 0), ('clm', FIRST)):
        runs.append(scale.run(f'{name}_0', FIRST, clm))
        for steps in FURTHER:
            own = scale.run(f'{name}_{steps // 1000}k', FIRST + steps, clm)
            runs.append(own | dict(schedule=again))
    config.runs = tuple(runs)
    return config
