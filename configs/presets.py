"""Pretraining methods of the papers and their successors, as phases.

Used by toy, small, pretrain and two studies, each at its own scale.
"""

SUMMARIES = {
    'clm': 'predicts the next token, as a decoder',
    'mlm': 'predicts masked tokens, as BERT',
    'clm_mlm': 'a quarter of CLM, then MLM, in one run: arXiv 2507.00994',
    'clm_mlm_half': 'half of CLM, then MLM: arXiv 2507.00994',
    'mixture': 'CLM and MLM at once, mixed by rows: future work there',
    'clm_jepa_mlm': 'a quarter of CLM, then JEPA + MLM at once, at equal weights',
    'jepa_mlm': 'the same, the gradient of the latent loss kept at half of that of MLM',
    'jepa_mlm_paper': 'I-JEPA + MLM: arXiv 2606.05173 as described, with its bugs fixed',
    'data2vec': 'averaged layers of an EMA target, and MLM: arXiv 2202.03555',
    'lejepa_mlm': 'JEPA + MLM with SIGReg instead of EMA: arXiv 2511.08544',
}


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
    """Returns {name: phases} of the names in SUMMARIES.

    rate               share of the tokens that are masked, except where a paper has its
                       own
    sampler            how they are sampled; data2vec samples spans
    tied               whether the LM head is tied to the embedding
    start              the target's EMA momentum rises from this to 1; in jepa_mlm_paper
                       from 0.996
    slow               range of the EMA momentum of data2vec
    top                number of last layers that data2vec averages
    predictor          options of the predictor
    paper_predictor    options of the predictor of arXiv 2606.05173
    """
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
        'clm_mlm': (dict(fraction=0.25, objective=clm), dict(objective=mlm)),
        'clm_mlm_half': (dict(fraction=0.5, objective=clm), dict(objective=mlm)),
        'mixture': (
            dict(objective=dict(name='mixture', parts=(clm, mlm), shares=(1, 3))),
        ),
        'clm_jepa_mlm': (dict(fraction=0.25, objective=clm), hybrid(ema)),
        # Does not work from scratch: before MLM has learned anything the targets
        # collapse, and with them the latent gradient (LOG.md).
        'jepa_mlm': (
            dict(fraction=0.25, objective=clm),
            hybrid(ema, balance=dict(name='gradient_ratio', ratio=0.5)),
        ),
        # I-JEPA's blocks, 15% masked as 80/10/10, EMA 0.996 to 1, lambda learned and
        # clamped.
        'jepa_mlm_paper': (
            dict(
                objective=dict(
                    name='ijepa',
                    mlm={**tokens, 'rate': 0.15, 'mask_share': 0.8, 'random_share': 0.1},
                    masks=1,
                    balance=dict(name='sigmoid'),
                    **paper_predictor,
                )
            ),
        ),
        # Spans of 4. Here the outputs of whole blocks (the residual stream) are averaged;
        # there, those of the feed-forward networks, before they are added to it.
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
    }
