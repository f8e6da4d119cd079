"""Pretraining in a day or two on one small GPU, as in free notebooks: a T4 or an L4.

    jepa-text plan small_gpu:clm_mlm,gpu=t4
    jepa-text train small_gpu:clm_mlm,gpu=l4 --workdir=runs/small \\
        --config.prepare.source.path=texts/ --config.prepare.tokenizer=tokenizer.json

The presets are those of configs/presets.py. A T4, which does not support
bfloat16, trains the 35M parameters of arXiv 2606.05173 in float32; an L4 trains the 210m
of arXiv 2507.00994. Both read 32,768 tokens per step. The configs were compiled for these
GPUs (docs/guides/planning.md), but have not been run on one.
"""

from typing import Literal

from jepa_text.settings.config_file import shared

PRESETS = shared('presets').SUMMARIES
# Size in configs/pretrain.py; (rows per step, tokens per row).
GPUS = {
    't4': dict(size='35m', rows=(128, 256), dtype='float32'),
    'l4': dict(size='210m', rows=(32, 1024), dtype='bfloat16'),
}


def get_config(preset: Literal[*PRESETS] = 'clm_mlm', *, gpu: Literal['t4', 'l4'] = 'l4'):
    """Returns the config of a preset on a GPU."""
    chosen = GPUS[gpu]
    config = shared('pretrain').get_config(preset, size=chosen['size'])
    config.name = f'{preset}_{gpu}'
    count, length = chosen['rows']
    config.steps = 50_000
    config.prepare.update(row_length=length, shards=8)
    config.data = dict(folder=f'runs/rows-{length}', row_length=length, batch_size=count)
    config.model.update(dtype=chosen['dtype'], remat='names')
    config.optimizer = dict(name='adamw')
    config.schedule = dict(
        name='wsd', peak=5e-4, warmup_fraction=0.02, decay_fraction=0.2
    )
    config.plan = dict(hardware=f'{gpu}:1', vocab_size=32_768)
    return config
