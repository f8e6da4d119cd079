"""One run on the bundled corpus, at toy scale: about two minutes on two cores.

    jepa-text train toy:clm_mlm --workdir=runs/clm_mlm

`jepa-text init --help` describes the presets; the size is that of the quickstart. With
--config.baseline=flops, phases with a latent loss are replaced by MLM with the same
FLOPs.
"""

from typing import Literal

from jepa_text.settings.config_file import shared

PRESETS = shared('presets').presets(
    tied=True, start=0.99, paper_predictor=dict(predictor_width=96)
)


def get_config(preset: Literal[*PRESETS] = 'clm_mlm'):
    """Returns the shared keys of configs/quickstart.py with the phases of a preset."""
    config = shared('quickstart').get_config()
    del config.runs
    config.name = preset
    config.phases = PRESETS[preset]
    config.data.folder = 'runs/rows-64'
    return config
