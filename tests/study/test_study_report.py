"""The report of a study with seeds, as a page and as Markdown, on synthetic numbers."""

import json
import math
import re
from unittest import mock

import made_up
import numpy as np
import pytest
from config_of import share_of_clm
from numpy.testing import assert_allclose

from jepa_text.evaluation.results import selection
from jepa_text.report import plots
from jepa_text.study import (
    arms,
    budgets,
    curves,
    fairness,
    finetuned,
    outcomes,
    report,
    verdicts,
)


def loss(config):
    """Lowest at a third of CLM; longer is better."""
    share = share_of_clm(config)
    return 5.2 - 0.5 * np.log10(config['steps']) + 2 * (share - 0.3) ** 2


@pytest.fixture(scope='module')
def pfs():
    return made_up.study('pfs', loss=loss)


def parts(made):
    """Returns (headline, {heading: section}) of the report of a study."""
    lead, found = report.parts(made)
    return lead, {one.get('heading', ''): one for one in found}


@pytest.fixture(scope='module')
def sections(pfs):
    return parts(pfs)


def outcome_rows(found):
    return {row[0]: row for row in found['Outcomes']['table']['rows']}


def column(section, name):
    place = section['table']['columns'].index(name)
    return [row[place] for row in section['table']['rows']]


@pytest.mark.slow
def test_every_claim_is_a_row_with_a_ruling_and_its_reason(sections):
    lead, found = sections
    states = column(found['Claims'], 'here')
    assert len(states) == 6 and set(states) == {'not resolvable here'}
    scores, verdict = lead.split('\n\n')
    about = 'lower is better; ± over seeds alone'
    assert scores.startswith(f'Masked loss ({about}): `clm25_42k` 4.395 ± 0.017 ')
    assert 'better than the strongest control, unigram entropy, 6.400.' in scores
    assert verdict.startswith('Of 10 comparisons, corrected together, ')
    assert ' seeds if they are as large as measured. Of 6 claims: 0 reproduced' in verdict
    reasons = column(found['Claims'], 'why')
    assert all(reasons) and 'masked loss: reproduced, p = ' in reasons[2]


def test_every_arm_is_shown_with_its_controls(sections, pfs):
    _, found = sections
    rows, names = outcome_rows(found), set(pfs.members)
    assert len(names) == 15
    for heading in ('Outcomes', 'Training budget', 'Geometry'):
        assert names <= {row[0] for row in found[heading]['table']['rows']}
    assert found['Outcomes']['table']['columns'][2:] == [
        *('masked loss', '± 95 %', 'against token frequencies', 'causal loss'),
        *('probes', '± 95 %', 'bag of its embeddings'),
    ]
    assert rows['unigram entropy'][2] == 6.4 and rows['untrained'][2] == 7.6
    assert rows['untrained'][4] == '1.20 worse'
    assert rows['TF-IDF'][6] == 0.53 and rows['largest class'][6] == 0.5
    assert rows['untrained'][8] == rows['clm25_42k'][8] == pytest.approx(0.51)
    own = arms.by_seed(pfs.results)['clm25_42k']
    losses = [one['masked loss'] for one in own.values()]
    mean, low, high = selection.mean_over_seeds(losses)
    assert rows['clm25_42k'][1:4] == [5, mean, pytest.approx(high - mean)]
    assert low < mean < high


def test_curves_are_means_over_seeds_against_steps_and_flops(sections, pfs):
    figures = sections[1]['Learning curves']['figures']
    labels = {figure.axes[0].get_xlabel() for figure in figures}
    assert labels == {'steps', 'FLOPs'}
    steps, values_SN = curves.series(pfs.logs, pfs.members['mlm_42k'], 'heldout/mlm_loss')
    lines = figures[0].axes[0].get_lines()
    (line,) = [one for one in lines if one.get_label() == 'mlm_42k']
    assert values_SN.shape == (5, len(steps))
    assert_allclose(line.get_xdata(), steps)
    assert_allclose(line.get_ydata(), values_SN.mean(axis=0))


def test_a_mean_over_the_seeds_whose_logs_are_left_is_neither_drawn_nor_told(pfs):
    of_arm = {arm: pfs.members[arm] for arm in ('mlm_42k', 'clm_42k')}
    logs = pfs.logs | {of_arm['mlm_42k'][0]: []}
    each = dict.fromkeys(pfs.configs, budgets.Budget(((0, 1, 1, 1.0),), 1))
    hours = {arm: one[-1] for arm, one in fairness.spent(each, of_arm, logs).items()}
    assert math.isnan(hours['mlm_42k']) and hours['clm_42k'] > 0
    drawn = {a: curves.series(logs, own, 'heldout/mlm_loss') for a, own in of_arm.items()}
    assert drawn['mlm_42k'][1].shape == (5, 0) and drawn['clm_42k'][1].shape[1] > 0


@pytest.mark.slow
def test_page_and_markdown_have_the_same_contents(tmp_path):
    made = made_up.study('data_efficiency', seeds=2)
    path = report.write(tmp_path, made.results, made.configs, made.report)
    page, text = path.read_text(), (tmp_path / 'appendix.md').read_text()
    # Without logs there are no learning curves, and the page says so.
    assert 'Learning curves' not in page and 'not logged' in page
    for heading in ('Claims', 'Outcomes', 'Verdicts', 'Geometry', 'Fairness checks'):
        assert f'<h2>{heading}</h2>' in page and f'\n## {heading}\n' in text
    figures = re.findall(r'\]\((figures/.*?)\)', text)
    assert len(figures) == 2
    for name in figures:
        assert (tmp_path / name).stat().st_size > 1000
        assert (tmp_path / name).with_suffix('.pdf').is_file()


def sensitivity(config, rng):
    mean = {'mlm': 0.05, 'clm25': 0.04, 'clm': 0.02}[config['name'].partition('/')[0]]
    key = f'float32 {arms.SENSITIVITY}'
    return {'exam/float32': 0.7, f'exam/{key}': mean + 0.002 * rng.normal()}


def test_fine_tuning_scores_are_outcomes():
    made = made_up.study('finetune_stability', sensitivity=sensitivity)
    made.results['examined']['beside'] = {'float32': {'TF-IDF': 0.6}}
    _, found = parts(made)
    states, reasons = (column(found['Claims'], name) for name in ('here', 'why'))
    assert states == ['reproduced', 'not resolvable here']
    assert reasons[1] == 'clm has no paper_bf16 sensitivity (seed 0)'
    rows, columns = outcome_rows(found), found['Outcomes']['table']['columns']
    assert rows['TF-IDF'][columns.index('float32')] == 0.6
    assert rows['clm'][columns.index('float32 sensitivity')] == pytest.approx(0.02, 0.2)


@pytest.mark.parametrize('seeds, lost', [(6, 1), (5, 5)])
def test_a_run_without_results_prevents_verdicts_on_its_arm(seeds, lost):
    """It may have diverged, and the others are not a fair sample."""
    made = made_up.study('finetune_stability', seeds=seeds, sensitivity=sensitivity)
    recipes = made.results['recipes']
    names = [member for member, (arm, _) in recipes.items() if arm == 'mlm'][-lost:]
    made.results['missing'] = {member: recipes.pop(member) for member in names}
    made.results['models']['clm/seed_0']['heldout/clm_loss'] = math.inf
    lead, found = parts(made)
    assert column(found['Claims'], 'here') == ['not resolvable here'] * 2
    said = f'no verdict: {lost} value{"s" * (lost > 1)} not finite'
    assert said in column(found['Claims'], 'why')
    assert said in column(found['Verdicts'], 'verdict')
    drawn = [plots.described(x) for x in found['Learning curves']['figures']]
    assert drawn and not any(re.search(r'\bmlm\b', one) for one in drawn)
    assert 'mlm' not in column(found['Training budget'], '')
    rows = outcome_rows(found)
    assert rows['mlm'][1] == rows['clm'][1] == seeds
    assert math.isnan(rows['mlm'][2]) and rows['clm'][2] > 0
    lost_names = ', '.join(['clm/seed_0', *names])
    assert f'(nan in the tables, and no verdict): {lost_names}.' in lead


def test_a_run_without_an_exam_prevents_verdicts_on_it():
    """Its fine-tuning may have failed, or its checkpoints are gone."""
    made = made_up.study('finetune_stability', sensitivity=sensitivity)
    name = next(n for n, (arm, _) in made.results['recipes'].items() if arm == 'mlm')
    made.results['examined']['values'][name] = {}
    lead, found = parts(made)
    claims, rows = found['Claims'], outcome_rows(found)
    assert column(claims, 'here') == ['not resolvable here'] * 2
    assert column(claims, 'why')[0] == 'no verdict: 1 value not finite'
    place = found['Outcomes']['table']['columns'].index('float32')
    assert math.isnan(rows['mlm'][place]) and rows['clm'][place] == pytest.approx(0.7)
    assert lead.endswith(f'(nan in the tables, and no verdict): {name}.')


def test_exam_metrics_are_those_that_evaluation_selected():
    def of(model, task, value, sensitivity=math.nan, by='standard'):
        given = dict(model=model, task=task, sensitivity=sensitivity)
        given |= dict(by=by, metric='accuracy')
        interval = selection.mean_over_seeds([value])
        return mock.Mock(**given, members=[{'control': model}], interval=lambda: interval)

    paths = {'/x/a': 'a', '/x/b': 'b'}
    chosen = [of('/x/a', 'sst2', 0.8, 0.02), of('/x/a', 'mnli', 0.6, 0.04)]
    chosen += [of('/x/b', 'sst2', 0.7), of('TF-IDF', 'sst2', 0.5)]
    found, beside = finetuned.metrics_of('SC', chosen, paths)
    assert found['a'] == {
        'exam/SC': pytest.approx(0.7),
        'exam/SC sst2': 0.8,
        'exam/SC mnli': 0.6,
        'exam/SC sensitivity': pytest.approx(0.03),
    }
    assert found['b'] == {'exam/SC': 0.7, 'exam/SC sst2': 0.7}
    assert beside == {}  # no control has all tasks
    chosen.append(of('commonest', 'mnli', 0.7))
    _, beside = finetuned.metrics_of('SC', chosen, paths)
    assert beside == {finetuned.STRONGEST: pytest.approx(0.6)}
    chosen.append(of('TF-IDF', 'mnli', 0.6))
    _, beside = finetuned.metrics_of('SC', chosen, paths)
    assert beside == {'TF-IDF': 0.55, finetuned.STRONGEST: pytest.approx(0.6)}
    # A control without a value by the paper's definition is not compared.
    chosen[-1] = of('TF-IDF', 'mnli', 0.6, by='paper')
    _, beside = finetuned.metrics_of('SC', chosen, paths)
    assert beside == {finetuned.STRONGEST: pytest.approx(0.6)}


def test_an_exam_is_taken_again_if_a_label_or_the_weights_change(tmp_path, monkeypatch):
    asked, path = [], tmp_path / 'set.jsonl'
    monkeypatch.setattr(
        finetuned, '_examine', lambda *given: asked.append(given[-2]['m'][1]) or []
    )
    labels, weights = ['a', 'b'] * 30, None
    monkeypatch.setattr(finetuned, '_weights', lambda *_: weights)
    section = {'tasks': ({'name': 'labeled', 'path': str(path)},)}
    for change in ('', '', 'label', 'weights'):
        if change == 'label':
            labels[0] = 'b'
        weights = 'other' if change == 'weights' else weights
        rows = [{'text': f'{n} whales', 'label': x} for n, x in enumerate(labels)]
        path.write_text('\n'.join(map(json.dumps, rows)))
        finetuned.run({'exam': section}, tmp_path, {'m': 'a config'}, {})
    assert asked[0] == asked[1]
    assert asked[1] != asked[2] != asked[3]


def test_members_that_fail_do_not_withhold_the_others(tmp_path, monkeypatch):
    names = ('a', 'b')
    monkeypatch.setattr(finetuned.restore, 'steps', lambda _: [1])
    chosen = [(str(tmp_path / name), name) for name in names]

    def fails(config, folder):
        assert config['models'] == [path for path, _ in chosen]
        raise finetuned.evaluate.MembersFailed('b failed', {'lines': []})

    monkeypatch.setattr(finetuned.evaluate, 'evaluate', fails)
    values = {'a': {'exam/x set': 0.5}}
    monkeypatch.setattr(finetuned, 'metrics_of', lambda *_: (values, {}))
    questions = {name: (tmp_path / f'{name}.json', {'run': name}) for name in names}
    section = dict(tasks=(dict(name='labeled', path='set.jsonl'),))
    (error,) = finetuned._examine('x', section, tmp_path, questions, ['set'])
    assert 'b failed' in str(error)
    answers = [finetuned.cached_result.answer(*questions[name]) for name in names]
    assert answers == [{'values': values['a'], 'beside': {}}, None]


def test_an_exam_at_one_learning_rate_is_an_outcome_without_sensitivity():
    made = made_up.study('pfs', seeds=1, sensitivity=lambda *_: {'exam/SC': 0.7})
    found = arms.by_seed(made.results)
    assert arms.outcomes(found) == ['masked loss', 'probes', 'SC']
    assert not arms.is_lower_better('my_sensitivity')
    assert arms.is_lower_better('SC sensitivity')


def test_a_study_whose_arms_all_diverged_has_outcomes():
    made = made_up.study('pfs', seeds=2, loss=lambda config: math.nan)
    section = outcomes.section(made.results, arms.by_seed(made.results), [arms.LOSS])
    assert len(section['figures']) == 1


@pytest.mark.parametrize(
    'seeds, said',
    [
        (dict(a=2, b=2), 'No verdicts: 2 seeds, 5 needed.'),
        (dict(a=5), 'No verdicts: there is nothing to compare.'),
        (dict(a=5, b=5), 'Of 1 comparisons'),
        # Those without a verdict were not corrected.
        (dict(a=5, b=5, c=2), 'Of 1 comparisons'),
    ],
)
def test_the_headline_counts_verdicts_or_says_why_there_are_none(seeds, said):
    found = {arm: {n: {arms.LOSS: n} for n in range(own)} for arm, own in seeds.items()}
    decided = verdicts.decide(found, verdicts.questions(found, [arms.LOSS]))
    assert report.headline(decided, []).startswith(said)


@pytest.mark.slow
def test_a_run_has_the_same_color_in_all_learning_curves():
    made = made_up.study('jepa_vs_mlm', seeds=1)
    arm, key = list(made.members)[1], 'heldout/mntp_loss'
    for member in made.members[arm]:
        made.logs[member] = [{'step': 1, key: 4.0}, {'step': 2, 'heldout/mlm_loss': 4.0}]
    drawn = [x for figure in curves.figures(made) for x in figure.axes[0].get_lines()]
    own = {line.get_color() for line in drawn if line.get_label() == arm}
    assert own == {plots.COLORS[1]}
    # Where no interval is shown, none is explained.
    assert report.compared(made).endswith(' 1 seed.')


@pytest.mark.parametrize('seeds, about', [(1, ''), (2, '; ± over seeds alone')])
def test_scores_say_that_their_interval_is_over_seeds_alone(seeds, about):
    found = {arm: {n: {'SC': n / 10} for n in range(seeds)} for arm in 'ab'}
    values = {'SC': {'TF-IDF': 0.8}}
    results = dict(examined={'beside': values}, models={'untrained': {}}, probes={})
    told = outcomes.sentence(results, found, 'SC')
    assert told.startswith(f'SC (higher is better{about}): `a` ')


def test_the_untrained_model_is_the_control_of_the_geometry():
    made = made_up.study('jepa_vs_mlm', seeds=2)
    rows = outcomes.geometry(made.results, arms.by_seed(made.results))['table']['rows']
    assert rows[0] == ['untrained', -1.0, None, 47.6, None]


@pytest.mark.slow
def test_a_study_without_outcomes_has_a_report(tmp_path, capsys):
    """As of JEPA alone, without probes: nothing predicts tokens."""
    made = made_up.study('jepa_vs_mlm', seeds=2)
    for values in made.results['models'].values():
        del values['heldout/mlm_loss'], values['heldout/clm_loss']
    results = made.results | {'probes': {}}
    assert report.write(tmp_path, results, made.configs, {}).is_file()
    assert 'No verdicts: there is nothing to compare.' in capsys.readouterr().out


@pytest.mark.slow
def test_the_terminal_shows_arms_and_the_answer_but_no_members(tmp_path, capsys):
    made = made_up.study('pfs', seeds=5)
    report.write(tmp_path, made.results, made.configs, made.report)
    said = capsys.readouterr().out
    assert 'seed_' not in said and said.startswith('Outcomes') and 'TF-IDF' in said
    assert 'comparisons, corrected together' in said and 'not resolvable here.' in said
    assert (tmp_path / 'appendix.md').is_file()


def test_a_figure_of_losses_only_has_controls_near_the_arms():
    made = made_up.study('jepa_vs_mlm', seeds=2)
    reached = arms.by_seed(made.results)
    found = list(arms.summary(reached, arms.LOSS).values())
    low = min(min(one.low, one.value) for one in found)
    high = max(max(one.high, one.value) for one in found)

    def drawn(unigram):
        results = made.results | {'unigram': unigram}
        figure = outcomes.section(results, reached, [arms.LOSS])['figures'][0]
        return [label.get_text() for label in figure.axes[0].get_yticklabels()]

    near = high + 2.9 * (high - low)
    assert drawn(near)[0] == 'unigram entropy'
    assert 'unigram entropy' not in drawn(near + 0.2 * (high - low))
