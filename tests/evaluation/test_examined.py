"""The page and the summary of an evaluation show the results of all lines."""

import csv
import html
import itertools
import json
import re

import numpy as np
import pytest
from member_lines import CONFIG, lines, outcome

from jepa_text.evaluation import controls
from jepa_text.evaluation.results import page, result_files, selection, summary

pytest.importorskip('matplotlib')
RATES = (1e-5, 1e-4, 1e-3)
MODELS = {'mlm': (0.9, 1e-4), 'jepa <b>': (0.8, 1e-4)}


def control(name, value, task='trec'):
    given = dict(task=task, model=name, control=name, learning_rate=0.0, steps=0)
    return CONFIG | given | outcome(value, value)


def examined(seeds=5, tasks=('trec',), found=None, **more):
    if found is None:
        found = []
        for task in tasks:
            found += lines(MODELS, RATES, seeds, task)
            found.append(control(controls.TF_IDF, 0.855, task))
            found.append(control(controls.LARGEST, 0.2, task))
    chosen = selection.select(found)
    compared = selection.compare([c for c in chosen if 'control' not in c.first])
    return {'lines': found, 'chosen': chosen, 'compared': compared, **more}


def text_of(folder, given):
    """The text of the page of `examined`, with table cells separated by '|'."""
    others = dict(tests=(), failures={}, instances={}, facts={})
    path = page.write(folder / 'page.html', **others | given)
    whole = path.read_text(encoding='utf-8')
    whole = re.sub(r'<(svg|style).*?</\1>', '[figure]', whole, flags=re.DOTALL)
    cells = re.sub(r'</t[dh]>', '|', whole).replace('</tr>', '\n')
    return html.unescape(re.sub(r'<[^>]+>', '', cells)).replace('\xa0', ' ')


def test_a_task_lists_all_models_with_controls_last(tmp_path):
    given = examined()
    text = text_of(tmp_path, given)
    (row,) = [r for r in summary.rows(given['chosen']) if r['model'] == 'mlm']
    mean, low, high = row['standard']['accuracy']
    rate = summary.rate_text(row['learning_rate'])
    reach = f'± {mean - low:.3f}'
    assert reach == f'± {high - mean:.3f}'
    assert f'mlm|{mean:.3f}|{reach}|5|{rate}|{row["sensitivity"]:.3f}|' in text
    assert 'TF-IDF|0.855|–|1|–|–|' in text
    assert "paper's accuracy" in text and 'macro f1' in text
    places = [text.index(f'\n{name}|') for name in ('mlm', 'jepa <b>', 'TF-IDF')]
    assert places == sorted(places)


def test_below_five_seeds_there_is_no_verdict(tmp_path):
    text = text_of(tmp_path, examined(seeds=4))
    assert 'No verdict: 5 seeds of both models are needed, and there are 4.' in text
    assert '|4|–|no verdict|' in text and 'is better|' not in text
    text = text_of(tmp_path, examined(seeds=5))
    assert '|5|< 0.001|mlm is better|' in text
    assert 'Differences between models that are significant over seeds: 1 of 1.' in text
    # Controls with one run have no verdicts.
    assert text.count('no verdict|') == 0 and 'trec|mlm|TF-IDF' not in text


def test_models_no_better_than_a_control_are_named(tmp_path):
    text = text_of(tmp_path, examined())
    said = 'jepa <b> not better than the strongest control, TF-IDF, 0.855.'
    label = r'trec, accuracy \(± over seeds alone\)'
    assert re.search(f'{label}: mlm 0.8.* ± .*; {said}', text)


def test_failures_are_counted(tmp_path):
    found = lines(MODELS, RATES, 5)
    found[0].update(outcome(None, None, 'not finite'))
    found[1].update(outcome(0.2, 0.2, 'collapsed'))
    failures = {'trec.mlm.seed9': 'ArithmeticError: no number'}
    given = examined(found=found, failures=failures)
    text = text_of(tmp_path, given)
    assert 'trec|mlm|13|1|1|–|' in text and 'ArithmeticError: no number' in text
    said = '30 fine-tuning runs, 1 ended without a finite loss and 1 gave all texts one'
    assert said in text
    text = text_of(tmp_path, examined())
    assert 'Failed members' not in text


@pytest.mark.parametrize(
    'kind, metric, theirs',
    [('tags', 'entity_f1', 'sentence_macro_f1'), ('spans', 'f1', 'token_f1')],
)
def test_models_selected_by_the_papers_metric_are_shown(tmp_path, kind, metric, theirs):
    """Controls of spans have no value by it."""

    def member(model, rate, seed, paper, **more):
        both = {'standard': {metric: 0.9 - 100 * rate}, 'paper': paper}
        made = outcome() | {'validation': both, 'test': both}
        made |= {'kind': kind, 'metric': metric, 'model': model, **more}
        return CONFIG | {'learning_rate': rate, 'seed': seed} | made

    grid = itertools.product(('mlm', 'clm'), (1e-4, 1e-3), range(5))
    found = [member(*one, {theirs: 0.5 + 100 * one[1]}) for one in grid]
    paper = {} if kind == 'spans' else {theirs: 0.1}
    found.append(member('never', 0.0, 0, paper, control='never'))
    chosen = selection.select(found, by='paper')
    assert [one.rate for one in chosen] == [1e-3, 1e-3, 0.0]
    given = dict(lines=found, chosen=chosen, compared=selection.compare(chosen[:2]))
    text = text_of(tmp_path, given)
    assert 'mlm|0.800|± 0.000|5|1e-03|' in text and 'never|0.900|' in text
    assert "paper's " + theirs.replace('_', ' ') in text
    assert "mean over seeds, by the paper's metric, as are verdicts, sens" in text


def test_a_model_without_finite_members_is_shown(tmp_path):
    found = lines({'mlm': MODELS['mlm']}, RATES, 5)
    lost = outcome(None, None, 'not finite')
    found += [line | {'model': 'gone'} | lost for line in list(found)]
    control = {'model': 'mlm, untrained', 'control': 'untrained'}
    found += [line | control | lost for line in found[:15]]
    text = text_of(tmp_path, examined(found=found))
    assert '5 seeds of both models are needed, and there are 0' in text
    assert '2 models (mlm, gone); fine-tuned for 200 steps of 32 texts at 3' in text
    assert 'mlm, untrained|–|' in text
    assert 'gone|–|–|0|–|' in text and 'trec|gone|0|15|0|0, 1, 2, 3, 4|' in text
    assert (tmp_path / 'page.html').read_text(encoding='utf-8').count('<svg') == 2


def test_the_page_has_texts_settings_and_an_overview(tmp_path):
    given = examined(tasks=('trec', 'r8'), tests=['trec: 12 texts are shared.'])
    text = text_of(tmp_path, given)
    assert 'trec: 12 texts are shared.' in text
    assert '"batch_size": "32"' in text and '"jax": "0.10.2"' in text
    rows = summary.rows(given['chosen'])
    (row,) = [r for r in rows if (r['model'], r['task']) == ('mlm', 'r8')]
    assert 'trec, accuracy|r8, accuracy|' in text
    (overview,) = re.findall(r'\nmlm\|[\d.]+\|([\d.]+)\|\n', text)
    assert float(overview) == pytest.approx(row['standard']['accuracy'][0], abs=1e-3)


def test_the_interval_over_seeds_and_texts_has_a_column(tmp_path):
    rng, config = np.random.default_rng(0), CONFIG | {'model': 'mlm'}
    for seed in range(5):
        right = rng.random(40) < 0.8
        given = outcome(float(right.mean()), 0.8)
        result_files.write(tmp_path, config | {'seed': seed}, given, {'accuracy': right})
    chosen = selection.select(result_files.read(tmp_path)[0])
    found = summary.over_instances(tmp_path, chosen, {})
    interval = found['mlm', 'trec']
    assert interval.value == pytest.approx(chosen[0].interval().value)
    given = dict(lines=chosen[0].members, chosen=chosen, compared=[], instances=found)
    text = text_of(tmp_path, given)
    assert '95 %, seeds and texts|' in text
    assert f'|{interval.low:.3f} to {interval.high:.3f}|' in text
    # Each answer four times, as of pairs of the same texts.
    texts = np.repeat(np.arange(10), 4)
    wider = summary.over_instances(tmp_path, chosen, {'trec': [texts]})['mlm', 'trec']
    assert wider.value == interval.value and wider != interval
    # One seed says nothing about others, and the page says so.
    one = selection.select([chosen[0].members[0]])
    found = summary.over_instances(tmp_path, one, {})
    given = dict(lines=one[0].members, chosen=one, compared=[], instances=found)
    text = text_of(tmp_path, given)
    low, high = found['mlm', 'trec'][1:]
    assert f'|{low:.3f} to {high:.3f} (texts)|' in text
    # No interval if a member has no per-instance values.
    lines = [{k: v for k, v in x.items() if k != 'side'} for x in chosen[0].members]
    assert summary.over_instances(tmp_path, selection.select(lines), {}) == {}


def test_the_interval_over_texts_is_of_the_value_beside_it(tmp_path):
    """Also if the rate is selected by the paper's metric."""
    rng, config = np.random.default_rng(0), CONFIG | {'kind': 'spans', 'metric': 'f1'}
    for seed in range(3):
        f1_N, ours_N = (rng.random(40) < share for share in (0.8, 0.3))
        standard, paper = {'f1': float(f1_N.mean())}, {'token_f1': float(ours_N.mean())}
        both = {'standard': standard, 'paper': paper}
        given = outcome() | {'validation': both, 'test': both}
        values = {'f1': f1_N, 'paper_token_f1': ours_N}
        result_files.write(tmp_path, config | {'seed': seed}, given, values)
    for by in ('standard', 'paper'):
        (chosen,) = selection.select(result_files.read(tmp_path)[0], by=by)
        found = summary.over_instances(tmp_path, [chosen], {})[chosen.model, 'trec']
        beside = chosen.interval(by='standard', metric='f1')
        assert found.value == pytest.approx(beside.value)


def test_the_summary_of_one_seed_is_valid_json(tmp_path):
    summary.write(tmp_path, summary.rows(examined(seeds=1)['chosen']))
    text = (tmp_path / 'summary.json').read_text()
    row = json.loads(text, parse_constant=pytest.fail)[0]
    mean, *ends = row['standard']['accuracy']
    assert 0 < mean < 1 and ends == [None, None]


def test_the_csv_has_a_line_for_each_metric_and_definition(tmp_path):
    own = lines({'mlm, "own"': (0.7, 1e-4)}, RATES, 1, 'r8')
    rows = summary.rows(selection.select(lines(MODELS, RATES, 5) + own))
    summary.write(tmp_path, rows)
    found = list(csv.DictReader((tmp_path / 'summary.csv').open()))
    assert len(found) == 3 * 3  # accuracy and macro F1, and the paper's accuracy
    mean, low, high = rows[0]['standard']['accuracy']
    assert [float(found[0][key]) for key in ('value', 'low', 'high')] == [mean, low, high]
    assert found[0]['seeds'] == '5' and found[-1]['low'] == ''
    assert (found[-1]['model'], found[-1]['definition']) == ('mlm, "own"', 'paper')


def test_models_then_controls_are_printed(capsys):
    rows = summary.rows(examined()['chosen'])
    summary.show(rows[::-1])
    printed = capsys.readouterr().out
    (row,) = [row for row in rows if row['model'] == 'mlm']
    mean, low, high = row['standard']['accuracy']
    assert f'{mean:.3f}   ± {(high - low) / 2:.3f}' in printed
    assert printed.index(' mlm ') < printed.index(' TF-IDF ')
