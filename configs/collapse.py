"""Does latent prediction collapse, and what prevents it? Four runs on the same rows.

    jepa-text study collapse --workdir=runs/collapse

JEPA alone with its EMA target; JEPA alone without EMA, so that the encoder itself is the
target; the same with SIGReg; and JEPA with MLM at equal weights.
"""

from jepa_text.settings.config_file import shared


def get_config():
    """Returns the config of configs/quickstart.py with four runs of its hybrid."""
    config = shared('quickstart').get_config()
    config.name = 'collapse'
    config.steps = 800
    config.telemetry = dict(every_steps=20)
    ema = dict(distance='cosine', momentum=dict(name='linear', start=0.99, end=1.0))
    none = dict(distance='mse', normalize='none', momentum=None, stop_gradient=False)
    sigreg = dict(name='sigreg', weight=0.5)
    config.runs = (
        _run('jepa', 1.0, ema),
        _run('jepa_no_ema', 1.0, none),
        _run('jepa_sigreg', 1.0, none | dict(regularizer=sigreg)),
        _run('jepa_mlm', 0.5, ema),
    )
    return config


def _run(name, weight, latent):
    objective = dict(
        name='hybrid',
        mlm=dict(rate=0.3, tied=True),
        balance=dict(name='fixed', weight=weight),
        latent=latent,
        predictor='mlp',
    )
    return dict(name=name, phases=(dict(objective=objective),))
