"""A small encoder of your own text, in one to two hours on two cores.

    jepa-text train small --text=texts/ --workdir=runs/small
    jepa-text plan small
    jepa-text train small --steps=600 --workdir=runs/small-bundled

5.5 M parameters, of which 2.1 M are the embedding of a BPE of 8,192 entries that is
trained on the text; rows of 128 tokens, 32 of them per step; 17 M tokens, which is 1.4
epochs of 7 M words. Without --text the corpus is the bundled one, a tenth of that: use
fewer steps. The same command resumes. docs/guides/small.md has the corpus of the model
that is shipped.

`jepa-text init --help` describes the presets. `sets` is a folder of evaluation sets, JSON
lines, whose texts are removed from the corpus: `small:mlm,sets=runs/small-corpus/sets`.
The optimizer is that of `muon_420` in configs/speed.py.
"""

import hashlib
from pathlib import Path
from typing import Literal

from ml_collections import ConfigDict

from jepa_text.settings.config_file import shared

PRESETS = shared('presets').presets(
    # Fewer masked tokens towards the end, as the winners of BabyLM's tracks.
    rate=dict(name='linear', start=0.3, end=0.15),
    tied=True,
    start=0.99,
    paper_predictor=dict(predictor_width=192),
)


def get_config(preset: Literal[*PRESETS] = 'clm_mlm', *, sets=''):
    """Returns the config of a preset."""
    config = ConfigDict()
    config.name = f'small_{preset}'
    config.steps = 4200
    config.prepare = dict(
        source=dict(name='bundled'), tokenizer='bpe:8192', row_length=128
    )
    config.data = dict(
        folder='runs/rows-small', row_length=128, batch_size=32, repeat=True
    )
    if sets:
        decontaminate(config, sets)
    config.model = dict(
        name='transformer',
        width=256,
        depth=4,
        heads=4,
        kv_heads=4,
        ffn_width=768,
        qk_norm=True,
        scan=False,
    )
    config.optimizer = shared('speed').MUON_420['optimizer']
    config.schedule = dict(
        name='wsd', peak=4e-3, warmup_fraction=0.02, decay_fraction=0.65
    )
    config.phases = PRESETS[preset]
    config.evaluate = dict(every_steps=210, max_rows=256)
    config.checkpoint = dict(every_steps=210, keep=1)
    config.plan = dict(hardware='core:2', vocab_size=8192)
    return config


def decontaminate(config, folder):
    """Keeps the sets of a folder out of the corpus: each file whole, all splits."""
    paths = sorted(Path(folder).rglob('*.jsonl*'))
    if not paths:
        raise ValueError(f'sets={folder!r} has no .jsonl file.')
    sets = tuple(
        dict(path=str(path), name=path.relative_to(folder).with_suffix('').as_posix())
        for path in paths
    )
    config.prepare.clean = dict(decontaminate=sets)
    config.data.folder += f'-{hashlib.sha256(str(folder).encode()).hexdigest()[:6]}'
