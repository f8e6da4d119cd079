"""Held-out losses: scoring as in the objective, and bits per byte."""

import functools
import json
import math
from fractions import Fraction
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jepa_text.data import mixture, pipeline, tokenizers
from jepa_text.models import transformer
from jepa_text.models.network import Network
from jepa_text.parallel import sharding
from jepa_text.report import frequencies
from jepa_text.settings import resolve
from jepa_text.training import heldout


def network_of(section):
    tokenizer = tokenizers.load(tokenizers.BUNDLED)
    objective = resolve.build(
        'objectives', section, tokenizer=tokenizer, length=32, steps=1
    )
    encoder = transformer.make('tiny', vocab_size=tokenizer.vocab_size, depth=1)
    return Network(encoder, objective)


TWO = dict(name='mixture', parts=[dict(name='mntp'), dict(name='clm')])
THREE = dict(name='mixture', parts=[*TWO['parts'], dict(name='mlm')])
# (section, how far before a masked token it is predicted, scorings).
SCORED = [
    (dict(name='mlm'), 0, ['mlm', 'clm']),
    (dict(name='mlm', shift=1), 1, ['mntp', 'clm']),
    (dict(name='clm'), 1, ['clm', 'mlm']),
    (dict(name='mntp'), 1, ['mntp', 'clm']),
    (dict(name='hybrid'), 0, ['mlm', 'clm']),
    (dict(name='hybrid', mlm=dict(name='mlm', rate=0.2)), 0, ['mlm', 'clm']),
    (dict(name='ijepa'), 0, ['mlm', 'clm']),
    (dict(name='mixture', parts=[dict(name='clm'), dict(name='mlm')]), 0, ['clm', 'mlm']),
    (TWO, 1, ['mntp', 'clm']),
    (THREE, 1, ['mntp', 'clm', 'mlm']),
]


def test_every_objective_is_scored():
    assert {section['name'] for section, *_ in SCORED} == {*resolve.names('objectives')}


@pytest.mark.parametrize('section, shift, expected', SCORED)
def test_scorings_of_sections(section, shift, expected):
    network = network_of(section)
    found = heldout.scorings([network])
    assert list(found) == expected and network.objective.judged_by == expected[0]
    assert network.objective.token_objective.shift == shift
    # At a token's own position, a head of MNTP predicts the next token.
    shifts = {name: network_of(found[name]).objective.shift for name in found}
    assert shifts == {name: int(name != 'mlm') for name in expected}
    assert {found[one]['rate'] for one in found if one != 'clm'} <= {0.15}
    values = {f'heldout/{kind}_loss': 1.0 for kind in ('clm', 'mlm', 'mntp')}
    values |= {f'heldout/{expected[0]}_loss': 2.0, frequencies.UNIGRAM: 5.0}
    (said,) = frequencies.sentences(values, expected[0])
    assert '2.000 nats per token' in said


def test_attention_is_the_same_in_training_and_scoring():
    left = heldout.scorings([network_of(dict(name='mlm', attends='causal', rate=0.4))])
    assert left['mlm']['attends'] == 'causal' and left['mlm']['rate'] == 0.15
    inside = dict(name='hybrid', mlm=dict(attends='causal'))
    assert heldout.scorings([network_of(inside)])['mlm']['attends'] == 'causal'


def test_the_last_phase_decides_how_a_run_is_scored():
    clm, mntp, left, mlm = map(
        network_of,
        (
            dict(name='clm'),
            dict(name='mntp'),
            dict(name='mlm', attends='causal'),
            dict(name='mlm'),
        ),
    )
    assert list(heldout.scorings([clm, mntp])) == ['mntp', 'clm']
    assert list(heldout.scorings([mntp, clm, mlm])) == ['mlm', 'clm', 'mntp']
    assert heldout.scorings([mlm, left])['mlm']['attends'] == 'causal'
    assert heldout.scorings([left, mlm])['mlm']['attends'] == 'bidirectional'


def test_a_scoring_without_a_token_is_left_out():
    """Of a held-out document of a few words, none may be masked."""
    sums = dict(loss=6.0, accuracy=1.0, count=3.0, bytes=4.0)
    totals = {'mlm': dict.fromkeys(sums, 0.0), 'clm': sums}
    found = heldout.metrics_of(totals, np.array([0, 2, 1]))
    assert found['heldout/clm_loss'] == 2.0 and 'heldout/bits_per_byte' in found
    assert not [name for name in found if 'mlm' in name]
    # Tokens that stand for no bytes, as <eos>.
    found = heldout.metrics_of({'clm': sums | {'bytes': 0.0}}, np.array([0, 2, 1]))
    assert found['heldout/clm_loss'] == 2.0 and 'heldout/bits_per_byte' not in found


TEXTS = (
    'Call me Ishmael. Some years ago—never mind how long precisely—',
    ' \n\n\ttabs   and  spaces ',
    '<mask> <pad> <bos>',
    'naïve Ünïcödé 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 中文字 😀👩‍👩‍👧',
    '1234567 0.5 "don\'t"',
)


@pytest.mark.parametrize('text', TEXTS)
def test_the_bytes_of_tokens_add_up_to_the_text(text, ours):
    bytes_V = heldout.token_bytes(ours, rows=None)
    assert bytes_V[ours.encode(text)].sum() == len(text.encode())
    assert not bytes_V[list(ours.special_ids)].any()


@pytest.mark.slow
def test_bits_per_byte_count_the_predicted_bytes(folder, ours):
    """bits per byte * ln 2 * bytes of predicted tokens = their nats, summed from logits.
    For a document in one segment, these are all bytes of its text."""
    rows = pipeline.Rows(folder / 'rows', 'heldout')
    network = network_of(dict(name='clm'))
    params = jax.jit(functools.partial(network.init, 0))()
    mesh = sharding.make_mesh(devices=jax.devices()[:1])
    maximum = 6
    evaluator = heldout.Evaluator(
        [network], rows, ours, mesh, batch_size=4, max_rows=maximum
    )
    found = heldout.metrics_of(evaluator.totals(params, network), evaluator.frequencies)
    texts, nats = [], 0.0

    @jax.jit
    def surprise(params, row):
        inputs = (row[key][None] for key in ('tokens', 'segment_ids', 'positions'))
        hidden_BLD = network.apply('encoder', params, *inputs, causal=True)
        embedding_VD = params['encoder']['embedding']
        logits_LV = network.apply('lm_head', params, hidden_BLD, embedding_VD)[0]
        scores_LV = jax.nn.log_softmax(logits_LV)
        return -jnp.take_along_axis(scores_LV[:-1], row['tokens'][1:, None], axis=1)[:, 0]

    for index in range(maximum):
        row = rows[index]
        loss_L = np.asarray(surprise(params, row), np.float64)
        for piece in range(1, row['segment_ids'].max() + 1):
            (where,) = np.nonzero(row['segment_ids'] == piece)
            nats += loss_L[where[1:] - 1].sum()
            # The first token of a segment is not predicted: <bos>, or a token of text.
            texts.append(ours.decode(row['tokens'][where[1:]]))
    size = sum(len(text.encode()) for text in texts)
    assert size < rows.manifest['splits']['heldout']['bytes']
    assert found['heldout/bits_per_byte'] * math.log(2) * size == pytest.approx(
        nats, rel=1e-5
    )


def test_bytes_of_lossy_tokens_add_up_over_a_split(folder, ours):
    """Word pieces lose case and spaces; scaled counts add up to the bytes of a split."""
    rows = pipeline.Rows(folder / 'rows', 'heldout')
    content = json.loads(ours.content) | {
        'decoder': {'type': 'WordPiece', 'prefix': '##', 'cleanup': True}
    }
    lossy = tokenizers.parse(content, 'test')
    bytes_V = heldout.token_bytes(lossy, rows)
    counts_V = heldout.counts_of_rows(rows, lossy.special_ids, len(rows))
    assert counts_V.any() and not counts_V[list(lossy.special_ids)].any()
    total = (counts_V * bytes_V.astype(np.float64)).sum()
    assert total == pytest.approx(rows.manifest['splits']['heldout']['bytes'], rel=1e-6)
    assert not bytes_V[list(lossy.special_ids)].any()


@pytest.mark.parametrize(
    'rows, maximum, expected',
    [
        ({'a': 9000, 'b': 9000}, 2048, [1843, 205]),
        ({'a': 52, 'b': 439}, 2048, [51, 6]),
        ({'a': 9000, 'b': 10}, 2048, [90, 10]),
    ],
)
def test_a_part_with_few_rows_keeps_its_share(monkeypatch, rows, maximum, expected):
    taken = []
    monkeypatch.setattr(pipeline, 'Rows', lambda folder, split: range(rows[folder]))
    monkeypatch.setattr(
        heldout, 'Evaluator', lambda *_, max_rows, **__: taken.append(max_rows)
    )
    parts = [
        mixture.Part(
            name=name,
            rows=SimpleNamespace(folder=name, fingerprint=name),
            weight=Fraction(weight),
        )
        for name, weight in (('a', '0.9'), ('b', '0.1'))
    ]
    phase = SimpleNamespace(mixture=mixture.Mixture(parts), network=None, batch_size=4)
    recipe = SimpleNamespace(phases=[phase], tokenizer=None, mesh=None)
    heldout.make(recipe, heldout.Config(max_rows=maximum, every_steps=1))
    assert taken == expected
