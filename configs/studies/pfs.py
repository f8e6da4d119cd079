"""CLM first, then MLM, at equal steps: Tables 10 to 13 of arXiv 2507.00994.

    jepa-text study --config=configs/studies/pfs.py:scale=desk --workdir=runs/pfs

Three budgets, five shares of CLM each. What runs have in common is trained once: of the
380,000 steps of the grid at paper scale 206,000, that is 122,000 beside the two runs of
42,000 steps of one objective, which the paper had from before.
"""

from jepa_text.config.config_file import shared

# Steps, and after how many of them CLM ends.
BUDGETS = {
    42_000: (10_000, 21_000, 32_000),
    22_000: (5_000, 11_000, 17_000),
    12_000: (3_000, 6_000, 9_000),
}


def get_config(argument='scale=desk'):
    """'scale=paper', 'scale=desk' or 'scale=smoke', and ',seeds=5'."""
    config, scale = shared('scales').begun('pfs', argument)
    runs = []
    for steps, switches in BUDGETS.items():
        named = zip(('mlm', 'clm25', 'clm50', 'clm75', 'clm'), (0, *switches, steps))
        for name, clm in named:
            runs.append(scale.run(f'{name}_{steps // 1000}k', steps, clm))
    config.runs = tuple(runs)
    return config
