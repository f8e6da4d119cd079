"""The main job: three runs of equal steps on the same rows, compared.

    jepa-text study --config=configs/quickstart.py --workdir=runs/quickstart

MLM alone; a quarter of CLM and then MLM (arXiv 2507.00994); the same quarter of CLM and
then JEPA + MLM (arXiv 2606.05173). About 100 s a run on two cores of a laptop.
"""

from ml_collections import ConfigDict


def get_config():
    """The shared keys in the order of the program, then what each run does alone."""
    config = ConfigDict()
    config.name = 'quickstart'
    config.seed = 0
    # Or `tokens`, places in rows; the other stays 0.
    config.steps, config.tokens = 1300, 0
    # 'flops' or 'time': instead, MLM alone with as much of it as the run has.
    config.baseline = 'none'

    # text -> rows
    config.prepare = dict(
        source=dict(name='bundled'), tokenizer='bundled', row_length=64, shards=4
    )
    # Rows of all devices together, or of each; the other stays 0. Threads that read: 0
    # for as many as there are cores, up to four.
    rows = dict(batch_size=16, batch_per_device=0)
    config.data = dict(folder='', row_length=64, **rows, threads=0)

    # batch -> hidden
    config.model = dict(name='transformer', preset='desk', scan=False, dtype='float32')

    # loss -> update
    config.optimizer = dict(name='adamw', b1=0.9, b2=0.95, weight_decay=0.1)
    config.schedule = dict(name='wsd', peak=3e-3, warmup=0.05, decay=0.2)
    config.clip_norm = 1.0
    config.accumulate = 1
    config.stop_after_skips = 10
    config.mesh = dict(data=-1, fsdp=1, tensor=1, dcn_data=1)
    config.offload = ''

    config.log_every = 10
    config.telemetry = dict(every=100, on_collapse='warn')
    config.evaluate = dict(every=325, rate=0.15, most_rows=256)
    # Uniformity and ranks of held-out vectors while they form; 0: never.
    config.geometry = dict(every=0, texts=512)
    config.checkpoint = dict(every=325, keep=2)
    config.watchdog = dict(seconds=900, compile=3600, pause=3600)
    config.profile_steps = (0, 0)
    config.compilation_cache = 'private'

    # Tied to the embedding: 0.13 nats better at this size.
    mlm = dict(name='mlm', rate=0.3, tied=True)
    clm = dict(name='clm', tied=True)
    hybrid = dict(
        name='hybrid',
        mlm=dict(rate=0.3, tied=True),
        balance=dict(name='fixed', weight=0.5),
        latent=dict(distance='cosine', momentum=dict(name='linear', start=0.99, end=1.0)),
        predictor='mlp',
    )
    config.study = dict(
        # Sets of jepa_text/evaluation/tasks/sentences.py, made of held-out documents of
        # any text: whether words were shuffled, two neighbors swapped, one word replaced.
        tasks=('word_order', 'bigram_shift', 'odd_word'),
        # A field of the documents that a probe reads off sentences, too; '': none.
        label='',
        sentences=(
            # Held out: 2015, 2018, and the chase's first day.
            (
                'My first duty as Commander-in-Chief is to defend the United <mask> '
                'of America.',
                'States',
            ),
            (
                'Above all else, we will keep our promises to the American <mask>.',
                'people',
            ),
            ('I only; none of ye could have raised the White <mask> first.', 'Whale'),
        ),
    )
    first = dict(share=0.25, objective=clm)
    config.runs = (
        dict(name='mlm', phases=(dict(objective=mlm),)),
        dict(name='clm_mlm', phases=(first, dict(objective=mlm))),
        dict(name='clm_jepa_mlm', phases=(first, dict(objective=hybrid))),
    )
    return config
