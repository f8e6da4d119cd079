"""Quickstart study: compares three runs of equal steps on the same rows.

    jepa-text study quickstart --workdir=runs/quickstart

MLM alone; a quarter of CLM, then MLM (arXiv 2507.00994); the same quarter of CLM, then
JEPA + MLM (arXiv 2606.05173). About 100 s per run on two cores of a laptop.
"""

from ml_collections import ConfigDict


def get_config():
    """Returns the config: shared keys in the order of the pipeline, then the runs."""
    config = ConfigDict()
    config.name = 'quickstart'
    config.steps = 1300

    # text -> rows -> batch
    config.prepare = dict(source=dict(name='bundled'), tokenizer='bundled', row_length=64)
    # A run reads 20,800 rows, but the corpus has only 20,696: some are repeated.
    config.data = dict(row_length=64, batch_size=16, repeat=True)

    # batch -> hidden -> loss -> update
    config.model = dict(name='transformer', preset='toy', scan=False)
    config.optimizer = dict(name='adamw')
    config.schedule = dict(
        name='wsd', peak=3e-3, warmup_fraction=0.05, decay_fraction=0.2
    )

    config.evaluate = dict(every_steps=325, max_rows=256)
    config.checkpoint = dict(every_steps=325, keep=2)
    config.plan = dict(hardware='core:2')

    # Heads tied to the embedding: 0.13 nats better at this size.
    mlm = dict(name='mlm', rate=0.3, tied=True)
    clm = dict(name='clm', tied=True)
    hybrid = dict(
        name='hybrid',
        mlm=dict(rate=0.3, tied=True),
        balance=dict(name='fixed', weight=0.5),
        latent=dict(distance='cosine', momentum=dict(name='linear', start=0.99, end=1.0)),
        predictor='mlp',
    )
    first = dict(fraction=0.25, objective=clm)
    config.runs = (
        dict(name='mlm', phases=(dict(objective=mlm),)),
        dict(name='clm_mlm', phases=(first, dict(objective=mlm))),
        dict(name='clm_jepa_mlm', phases=(first, dict(objective=hybrid))),
    )
    return config
