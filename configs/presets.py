"""The ways to pretrain that the papers and their successors describe, as phases.

Read by configs/toy.py and configs/pretrain.py, each at its own scale.
"""


def presets(
    rate=0.3,
    sampler='fixed',
    tied=False,
    start=0.996,
    slow=(0.99, 0.999),
    top=3,
    predictor=None,
    paper_predictor=None,
):
    """{name: phases}. `rate` of the tokens is hidden, chosen by `sampler`; `tied` scores
    tokens with the embedding; the target's momentum rises from `start` to 1, data2vec's
    between the two of `slow`, and it averages the `top` last layers. `predictor` holds
    keywords of the predictor, `paper_predictor` of that of 2606.05173."""
    predictor, paper_predictor = predictor or {}, paper_predictor or {}
    clm = dict(name='clm', tied=tied)
    tokens = dict(rate=rate, sampler=sampler, tied=tied)
    mlm = dict(name='mlm', **tokens)

    def hybrid(latent, **options):
        given = {'mlm': tokens, **predictor, **options}
        return dict(objective=dict(name='hybrid', latent=latent, **given))

    ema = dict(momentum=dict(name='linear', start=start, end=1.0))
    return {
        'clm': (dict(objective=clm),),
        'mlm': (dict(objective=mlm),),
        # arXiv 2507.00994: a quarter, or half, of CLM, then MLM, in one run.
        'clm_mlm': (dict(share=0.25, objective=clm), dict(objective=mlm)),
        'clm_mlm_half': (dict(share=0.5, objective=clm), dict(objective=mlm)),
        # Both at once, row by row: named as future work there.
        'mixture': (
            dict(objective=dict(name='mixture', parts=(clm, mlm), shares=(1, 3))),
        ),
        # A quarter of CLM, then JEPA + MLM on one masked forward, at equal weights.
        'clm_jepa_mlm': (dict(share=0.25, objective=clm), hybrid(ema)),
        # Ours: the same, but the latent loss moves the encoder half as much as MLM does,
        # all along. From nothing that cannot be: before MLM has learned anything the
        # targets collapse, and the latent gradient with them (LOG.md).
        'jepa_mlm': (
            dict(share=0.25, objective=clm),
            hybrid(ema, balance=dict(name='gradient_ratio', ratio=0.5)),
        ),
        # arXiv 2606.05173 as described, faults mended: I-JEPA's blocks, 15 % of 80/10/10,
        # EMA 0.996 to 1, lambda learned and clamped.
        'jepa_mlm_paper': (
            dict(
                objective=dict(
                    name='ijepa',
                    mlm=dict(rate=0.15, mask_share=0.8, random_share=0.1, tied=tied),
                    masks=1,
                    balance=dict(name='sigmoid'),
                    **paper_predictor,
                )
            ),
        ),
        # arXiv 2202.03555, with words as a second loss: spans of 4, averaged layers. What
        # is averaged is a choice: here the outputs of whole blocks, the residual stream;
        # there those of the feed-forward networks, before they are added to it.
        'data2vec': (
            hybrid(
                dict(
                    top=top,
                    distance='smooth_l1',
                    beta=4.0,
                    ema='layers',
                    momentum=dict(name='linear', start=slow[0], end=slow[1]),
                ),
                mlm=dict(rate=0.35, sampler='span', span_length=4, tied=tied),
            ),
        ),
        # arXiv 2511.08544: no EMA and no stop-gradient; SIGReg keeps the latents apart.
        'lejepa_mlm': (
            hybrid(
                dict(
                    momentum=None,
                    stop_gradient=False,
                    distance='mse',
                    regularizer=dict(name='sigreg', weight=0.05),
                )
            ),
        ),
        # Two mask rates of one text as its views.
        'sentence': (dict(objective=dict(name='sentence', mlm=tokens)),),
    }
