"""Tests for truncated texts and their controls."""

import json

import examined
import numpy as np
import pytest
import tiny

from jepa_text.analysis import analyze
from jepa_text.data import truncation
from jepa_text.evaluation import controls
from jepa_text.evaluation.sets import task as tasks

pytest.importorskip('sklearn')
pytest.importorskip('matplotlib')

NOUNS = ('whale', 'captain', 'sister', 'garden')


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """A run with rows of 32 tokens, and texts that name their class after these."""
    folder = tmp_path_factory.mktemp('cut')
    phases = tiny.phases('mlm')
    changes = dict(steps=1, phases=phases, evaluate=dict(every_steps=0))
    tiny.train(tiny.config(folder, **changes), folder / 'a')
    rows = []
    for number in range(96):
        rng = np.random.default_rng(number)
        start = ' '.join(rng.choice(tiny.NOUNS, 50))
        noun = NOUNS[number % 4]
        rows.append({'text': f'{start} so we say {noun}ing {noun}ed', 'label': noun})
    text = ''.join(json.dumps(row) + '\n' for row in rows)
    (folder / 'set.jsonl').write_text(text)
    return folder


@pytest.fixture(scope='module')
def model():
    return examined.model(tiny.LENGTH, 1)


def config(folder):
    return dict(
        seed=0,
        models=[str(folder / 'a')],
        tasks=[dict(name='labeled', path=str(folder / 'set.jsonl'))],
        layers=[-1],
        poolings=['mean'],
        train=60,
        test=36,
        half_samples=0,
        controls=list(controls.CONTROLS),
        threads=1,
    )


@pytest.fixture(scope='module')
def results(folder):
    return analyze.analyze(config(folder), folder / 'out')


def value(results, **wanted):
    (row,) = (
        row
        for row in results['rows']
        if all(row[key] == value for key, value in wanted.items())
    )
    return row['value']


@pytest.mark.slow
def test_controls_read_what_the_model_reads(results):
    """The class is after the cut: only TF-IDF of the whole texts can predict it."""
    probe = dict(metric='probe_accuracy')
    assert value(results, control=controls.WHOLE, **probe) > 0.9
    assert value(results, control=controls.TF_IDF, model='a', **probe) < 0.6
    against = [w for w in results['examined'] if w['metric'] == 'probe_accuracy']
    assert not any('whole' in w['control'] for w in against)


@pytest.mark.slow
def test_an_analysis_may_read_shorter_rows(folder):
    shorter = config(folder) | dict(controls=[], max_length=16)
    (cut,) = analyze.analyze(shorter, folder / 'shorter')['cuts']
    assert (cut['length'], cut['cut']) == (16, cut['texts'])
    longer = shorter | dict(max_length=2 * tiny.LENGTH)
    with pytest.raises(ValueError, match='max_length=64, but .* at most 32 tokens'):
        analyze.analyze(longer, folder / 'longer')


@pytest.mark.slow
def test_truncation_is_reported(results, folder, capsys):
    from jepa_text.analysis import page

    (cut,) = results['cuts']
    assert cut['length'] == tiny.LENGTH and cut['cut'] == cut['texts'] == 93
    assert 0.2 < cut['read'] < 0.9
    page.show(results)
    assert '100 % of 93 texts cut at 32 tokens' in capsys.readouterr().out
    text = (folder / 'out' / 'analysis.html').read_text()
    assert 'Truncation' in text
    assert controls.WHOLE in text and 'a, TF-IDF' in text


def test_truncated_texts_have_the_tokens_of_the_row(model):
    """The part has exactly the tokens of the row, for any characters."""
    for text in ('The whale saw ' * 30, 'naïve 中文字 😀👩‍👩‍👧 ' * 20, 'x' * 500):
        stop = model.cut_at(text)
        ids = model.row(text)
        kept = ids[~np.isin(ids, model.tokenizer.special_ids)]
        shown = model.tokenizer.decode(kept).rstrip('\ufffd')
        assert text[:stop].startswith(shown) and len(text[:stop]) <= len(shown) + 1
        assert model.cut_at(shown) is None
    assert model.cut_at('A letter') is None
    # Exactly as long as a row.
    exact = model.tokenizer.decode(model.row('whale ' * 99)[1:-1])
    assert len(model.row(exact)) == model.length and model.cut_at(exact) is None


def test_tasks_without_truncation_are_unchanged(model):
    part = tasks.examples(['a', 'b', 'c', 'd'], target=list('xyxy'))
    whole = tasks.Task('t', 'labels', 'accuracy', part, part)
    read, cut = truncation.truncate(model, whole, 'a')
    assert read is whole and cut == truncation.Cut('t', 'a', 0, model.length, 8, 0, 1.0)


def test_both_texts_of_pairs_are_truncated(model):
    long = ['whale ' * 60 + end for end in 'abcd']
    part = tasks.examples(list('abcd'), long, target=np.arange(4.0))
    whole = tasks.Task('t', 'scores', 'spearman', part, part)
    read, cut = truncation.truncate(model, whole, 'a')
    assert cut.cut == 8 and cut.texts == 16 and len(set(read.test.second)) == 1
    assert read.test.first == list('abcd') and read.test.target is part.target
