"""A study says what its runs are worth, checks before it trains, and loses nothing."""

import math

import pytest

from jepa_text import study_report


def results(**losses):
    """The results of a study by its held-out masked losses."""
    models = {name: {'heldout/mlm_loss': loss} for name, loss in losses.items()}
    return {'models': models, 'unigram': 6.4, 'heldout_tokens': 1000}


@pytest.mark.parametrize(
    'losses, said, unsaid',
    [
        (
            dict(a=5.0, b=5.5),
            '`a` names hidden tokens best: 5.00 nats per token, 1.40 better',
            'W',
        ),
        (dict(a=7.05), 'that token frequencies do not give: `a`.', 'Worse than untr'),
        (
            dict(a=7.05),
            '7.05 nats per token, 0.65 worse than token frequencies alone',
            '-0.65',
        ),
        (
            dict(a=5.0, b=7.7),
            'Worse than untrained at naming hidden tokens: `b`.',
            '`a`,',
        ),
        (
            dict(a=math.nan, b=5.0),
            'Worse than untrained at naming hidden tokens: `a`.',
            '-',
        ),
        (dict(a=math.nan, b=5.0), '`b` names hidden tokens best', 'nan'),
    ],
)
def test_the_headline_says_what_the_runs_are_worth(losses, said, unsaid):
    headline = study_report.headline(results(untrained=7.6, **losses))
    assert said in headline and unsaid not in headline
    # The untrained network is no run: it never names hidden tokens best.
    assert '`untrained` names' not in study_report.headline(results(untrained=4.0, a=5.0))


def test_a_run_is_judged_by_its_own_masked_loss():
    """MNTP where that was trained; a run that predicts no tokens has none."""
    found = results(a=5.0)
    found['models']['b'] = {'heldout/mntp_loss': 2.0, 'heldout/mntp_accuracy': 0.5}
    found['models']['c'] = {}
    assert '`b` names hidden tokens best: 2.00' in study_report.headline(found)
    rows = {row[0]: row[1:] for row in study_report._losses(found)['table']['rows']}
    assert rows['b'][0] == 2.0 and rows['b'][2] == 0.5
    assert rows['c'] == [None] * 4
    found['models'] = {'c': {}}
    assert 'No run predicts tokens' in study_report.headline(found)
