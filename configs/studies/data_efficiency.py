"""Data efficiency of MLM and CLM: Tables 6 to 9 of arXiv 2507.00994.

    jepa-text study studies/data_efficiency:scale=desk \\
        --workdir=runs/efficiency

MLM and CLM after 1,000 to 40,000 of 42,000 steps, before any decay: one trunk each, whose
checkpoints are evaluated.
"""

from jepa_text.settings.config_file import shared

STEPS = (40_000, 20_000, 10_000, 5_000, 2_000, 1_000)


def get_config(argument='scale=desk'):
    """Returns the config of 'scale=desk,seeds=5'; scales are paper, desk and smoke."""
    config, scale = shared('scales').begun('data_efficiency', argument)
    # The schedule of the whole run: shorter runs end before its decay.
    config.schedule = scale.wsd(steps=scale.steps(42_000))
    config.runs = tuple(
        scale.run(f'{name}_{steps // 1000}k', steps, steps if name == 'clm' else 0)
        for name in ('mlm', 'clm')
        for steps in STEPS
    )
    return config
