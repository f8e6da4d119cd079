"""Pretraining as in the papers, at full scale, on your text.

    jepa-text plan pretrain:jepa_mlm,size=610m --hardware=h100:64
    jepa-text train pretrain:clm_mlm,size=210m --text=texts/ --workdir=runs/clm_mlm \\
        --tokenizer=tokenizer.json

`jepa-text init --help` describes the presets. The sizes 210m, 610m and 1b have the
optimizer, schedule, masking and tokens per step of arXiv 2507.00994 (2.36 M, for 42,000
steps: 99 G tokens), 35m those of arXiv 2606.05173. The rows of the papers differ:

                 arXiv 2507.00994                      here
    sequences    of 12 to 2,036 tokens, 1,024 on       rows of 2,048 (35m: 128), of whole
                 average, cut from the stream of       documents and pieces of long ones
                 documents at any place
    attention    across the documents of a sequence;   within a document; positions from
                 positions from its start              the start of each piece
    specials     <eos> after a document, no <bos>      <bos> before and <eos> after
    loss         mean over each device's tokens,       one mean over all tokens of a step
                 then over devices
    head of MLM  at all positions                      at masked positions

Differences in results may thus be due to the rows. `prepare.packing='paper'` makes their
sequences, two per row, and `prepare.add_bos=False` omits <bos>; loss and head do not
change. arXiv 2606.05173 does not pack: a row is the first 512 characters of an article,
padded to 128 tokens, while rows here are full.

With --config.baseline=flops, phases with a latent loss are replaced by MLM with
the same FLOPs.
"""

from typing import Literal

from ml_collections import ConfigDict

from jepa_text.settings.config_file import shared

PRESETS = shared('presets').SUMMARIES


def phases(preset, size):
    """Returns the phases of a preset with the hyperparameters of the papers."""
    return shared('presets').presets(
        # Tokens are sampled independently, as in both papers; 0.4 is the default rate of
        # arXiv 2507.00994.
        rate=0.4,
        sampler='iid',
        # As data2vec on text, which averages ten layers of twelve (of each, the output of
        # the feed-forward network: presets.py).
        slow=(0.999, 0.9999),
        top=5 if size == '35m' else 10,
        predictor=dict(predictor_width=1024),
        # 192 in the released code; 512 in its README.
        paper_predictor=dict(predictor_width=192, predictor_depth=6, predictor_heads=8),
    )[preset]


def get_config(
    preset: Literal[*PRESETS] = 'clm_mlm',
    *,
    size: Literal['35m', '210m', '610m', '1b'] = '610m',
):
    """Returns the config of a preset at a size."""
    config = ConfigDict()
    config.prepare = dict(
        source=dict(name='jsonl', path='', field='text'),
        tokenizer='',
        row_length=2048,
        shards=64,
    )
    config.log_every_steps = 20
    config.geometry = dict(texts=2048)
    config.name = f'{preset}_{size}'
    config.phases = phases(preset, size)
    return _small(config) if size == '35m' else _as_2507_00994(config, size)


def _as_2507_00994(config, size):
    """Returns the config of section 2 and Table 1 there, except for the rows (see above).

    192 x 12 sequences of 1,024 tokens on average are as many tokens as 1,152 rows of
    2,048.
    """
    config.steps = 42_000
    config.data = dict(folder='runs/rows-2048', row_length=2048, batch_size=1152)
    config.model = dict(name='transformer', preset=size, remat='names', dtype='bfloat16')
    # Weight decay applies to all parameters there, including norms and embeddings.
    config.optimizer = dict(name='adamw', eps=1e-5, decay_paths='^(?!balance/)')
    config.schedule = dict(name='wsd', peak=5e-4, warmup_steps=2000, decay_steps=2000)
    config.plan = dict(vocab_size=128_256)
    return config


def _small(config):
    """Returns the config of arXiv 2606.05173.

    6 layers of width 512, 64 rows of 128 tokens, and as many steps as three epochs of 6.4
    M lead sections of Wikipedia, one per padded row there. The SwiGLU has as many
    parameters as its MLP of width 2,048.
    """
    config.steps = 300_000
    config.prepare.row_length = 128
    config.data = dict(folder='runs/rows-128', row_length=128, batch_size=64)
    config.model = dict(
        name='transformer',
        width=512,
        depth=6,
        heads=8,
        kv_heads=8,
        ffn_width=1376,
        dtype='bfloat16',
    )
    config.optimizer = dict(name='adamw', b2=0.999, weight_decay=0.05)
    # Their warm-up was meant to be a tenth of the run, but was longer than the run.
    config.schedule = dict(name='warmup_cosine', peak=5e-5, warmup_fraction=0.1, end=1e-6)
    config.plan = dict(vocab_size=30_522)
    return config
