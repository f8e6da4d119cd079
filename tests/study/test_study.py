"""Studies: outcomes, probes, early checks, saved results and exams."""

import itertools
import json
import shutil

import config_of
import examined
import pytest
import tiny

from jepa_text.files import checksums
from jepa_text.study import arms, measure, outcomes, study


def test_a_run_is_judged_by_its_own_masked_loss():
    """MNTP for a run trained with it; a run that predicts no tokens has none."""
    shape = {'geometry/uniformity': -1.5, 'geometry/effective_rank': 40.0}
    models = {
        'untrained': {'heldout/mlm_loss': 7.6},
        'a': {'heldout/mlm_loss': 5.0},
        'b': {'heldout/mntp_loss': 2.0, 'heldout/mntp_accuracy': 0.5},
        'c': {},
    }
    results = dict(probes={}, recipes={name: (name, 0) for name in 'abc'}, unigram=6.4)
    results['models'] = {name: shape | own for name, own in models.items()}
    table = outcomes.section(results, arms.by_seed(results), [arms.LOSS])['table']
    rows = {row[0]: dict(zip(table['columns'], row)) for row in table['rows']}
    assert rows['b']['masked loss'] == 2.0 and rows['b']['accuracy'] == 0.5
    assert [*rows['c'].values()] == ['c', 1, None, None, None]
    assert [*rows] == ['unigram entropy', 'untrained', 'a', 'b', 'c']


@pytest.fixture(scope='module')
def own_text(tmp_path_factory):
    """A study of one run of two steps, on documents without fields."""
    folder = tmp_path_factory.mktemp('study')
    config = tiny.config(folder, steps=2, baseline='none', evaluate=dict(every_steps=0))
    config |= dict(telemetry=dict(every_steps=0), checkpoint=dict(every_steps=0, keep=1))
    del config['phases']
    config['prepare'] = config_of.prepare_of(folder, 1200)
    config['data']['folder'] = ''
    mlm = tiny.phases('mlm')
    config['runs'] = (dict(name='a', phases=mlm),)
    config['study'] = dict(tasks=('word_order', 'bigram_shift'))
    return config, folder


@pytest.mark.slow
def test_a_study_of_text_without_fields_has_probes_with_controls(own_text, capsys):
    config, folder = own_text
    found = study.study(config, folder / 'out')
    assert found['recipes'] == {'a': ['a', 0]}
    saved = json.loads((folder / 'out' / 'results.json').read_text())['results']
    for results in (found, saved):
        assert set(results['probes']) == {'word_order', 'bigram_shift'}
        for probe in results['probes'].values():
            assert set(probe['controls']) == {'largest class', 'TF-IDF'}
        for name in ('untrained', 'a'):
            values = results['models'][name]
            assert 0.3 < values['representation/word_order'] < 0.7
            assert 0.3 < values['representation/word_order_bag'] < 0.7
    page = (folder / 'out' / 'report.html').read_text()
    said = capsys.readouterr().out
    for words in ('largest class', 'TF-IDF', 'bag of its embeddings'):
        assert words in page and words in said


@pytest.mark.slow
def test_measured_results_are_saved(own_text, monkeypatch, capsys):
    """If the evaluation of the second run fails, only that one is repeated."""
    config, folder = own_text
    runs = [config['runs'][0], config['runs'][0] | {'name': 'b'}]
    config = config | {'runs': runs, 'study': {'tasks': []}}
    load, broken = measure.load.load, [True]

    def fails_once(path):
        if path.name == 'b' and broken:
            broken.pop()
            raise RuntimeError('no memory')
        return load(path)

    monkeypatch.setattr(measure.load, 'load', fails_once)
    with pytest.raises(RuntimeError, match='b: .*no memory'):
        study.study(config, folder / 'kept')
    capsys.readouterr()
    found = study.study(config, folder / 'kept')
    said = capsys.readouterr().out
    assert 'evaluating b' in said and 'a: complete' in said
    assert 'evaluating a' not in said and 'evaluating untrained' not in said
    assert set(found['models']) == {'untrained', 'a', 'b'}
    # With one seed, network and stream, the two runs are the same.
    assert found['models']['a'] == found['models']['b']
    assert study.study(config, folder / 'kept') == found
    assert 'evaluating' not in capsys.readouterr().out
    # Another checkpoint is measured again.
    saved = next((folder / 'kept' / 'b' / 'checkpoints').glob('*/meta/metadata'))
    whole = study.plain(config)
    before = measure.question(whole, folder / 'kept', 'b', '')
    changed = json.loads(saved.read_text())
    changed['meta']['note'] = 'another'
    del changed['sha256']
    changed['sha256'] = checksums.checksum(changed)
    saved.write_text(json.dumps(changed))
    assert measure.question(whole, folder / 'kept', 'b', '') != before
    values = found['models']['b'] | {'heldout/mlm_loss': 1.25}
    monkeypatch.setattr(measure, '_measured', lambda *_: values)
    assert study.study(config, folder / 'kept')['models']['b'] == values


@pytest.fixture(scope='module')
def seeded(own_text):
    """(config, workdir, results) of a completed study of two seeds, without probes."""
    config, folder = own_text
    config = config | {'seeds': (0, 1), 'study': {'tasks': []}}
    return config, folder / 'seeded', study.study(config, folder / 'seeded')


@pytest.mark.slow
def test_a_study_with_only_result_files_can_get_more_seeds(seeded, tmp_path, capsys):
    """Results remain valid after the checkpoints are lost."""
    config, done, first = seeded
    out = shutil.copytree(done, tmp_path / 'grown')
    assert first['recipes'] == {'a/seed_0': ['a', 0], 'a/seed_1': ['a', 1]}
    losses = [first['models'][f'a/seed_{n}']['heldout/mlm_loss'] for n in (0, 1)]
    assert losses[0] != losses[1]
    for path in out.glob('a/seed_*'):
        shutil.rmtree(path)
    capsys.readouterr()
    grown = study.study(config | {'seeds': (0, 1, 2)}, out)
    said = capsys.readouterr().out
    assert 'a/seed_0: complete by its result' in said
    assert 'evaluating a/seed_2' in said and 'evaluating a/seed_0' not in said
    assert grown['models'].items() >= first['models'].items()
    assert 'a/seed_2' in grown['recipes'] and not (out / 'a' / 'seed_0').exists()
    # Other measurements are impossible without parameters.
    other = config | {'seeds': (0,), 'study': {'tasks': ['word_order']}}
    with pytest.raises(ValueError, match='was made with other settings'):
        study.study(other, out)
    # A truncated result is invalid.
    path = out / 'evaluated' / 'a' / 'seed_1.json'
    path.write_text(path.read_text().replace('heldout/mlm_loss', 'heldout/mlm_lose'))
    with pytest.raises(ValueError, match='a/seed_1.json is damaged'):
        study.study(config | {'seeds': (1,)}, out)


@pytest.mark.long
def test_runs_of_a_study_may_continue_from_a_model(seeded, tmp_path, capsys):
    """The model section is that of the start; a matched baseline needs it, too."""
    config, done, _ = seeded
    start = dict(path=str(done / 'a' / 'seed_0'))
    hybrid = dict(objective=dict(name='hybrid', predictor_width=16))
    runs = [*config['runs'], dict(name='b', phases=(hybrid,), baseline='flops')]
    config = {key: x for key, x in config.items() if key != 'model'}
    config |= dict(init_from=start, runs=runs)
    steps = [one.steps for one in study.study(config, tmp_path / 'out', dry_run=True)]
    assert steps[:2] == [2, 2] and steps[2] == steps[3] >= 2
    study.study(config, tmp_path / 'out')
    assert (tmp_path / 'out' / 'appendix.md').is_file()
    capsys.readouterr()
    study.study(config, tmp_path / 'out', dry_run=True)
    assert '4 runs are done' in ' '.join(capsys.readouterr().out.split())
    study.study(config, tmp_path / 'out')
    said = capsys.readouterr().out
    assert 'a/seed_1: complete' in said and 'b/seed_1: complete' in said


@pytest.mark.slow
def test_members_are_examined_at_tasks(seeded, tmp_path, capsys):
    config, done, _ = seeded
    out = shutil.copytree(done, tmp_path / 'examined')
    pairs = itertools.product(tiny.NOUNS, repeat=2)
    rows = [dict(text=f'The {n} {m}.', label=int(n == 'whale')) for n, m in pairs]
    path = examined.jsonl(tmp_path / 'mine.jsonl', rows)
    examine = dict(
        tasks=[dict(name='labeled', path=path)],
        learning_rates=[1e-3],
        seeds=1,
        finetuning=dict(steps=2, batch_size=8),
        controls=[],
    )
    config = config | {'examine': {'tuned': examine}}
    first = study.study(config, out)['examined']
    assert set(first['values']['a/seed_1']) == {'exam/tuned', 'exam/tuned mine'}
    written = (out / 'examined' / 'tuned' / 'lines.jsonl').read_text().splitlines()
    models = {str(out / 'a' / f'seed_{n}') for n in (0, 1)}
    assert {json.loads(line)['model'] for line in written} == models
    assert (out / 'examined' / 'tuned' / 'evaluation.html').is_file()
    shutil.rmtree(out / 'a' / 'seed_0')
    # Results outlive the checkpoints and a move of the labels; new ones are impossible.
    moved = examined.jsonl(tmp_path / 'elsewhere' / 'mine.jsonl', rows)
    examine['tasks'] = [dict(name='labeled', path=moved)]
    assert study.study(config, out)['examined'] == first
    (out / 'examined' / 'tuned' / 'members' / 'a' / 'seed_0.json').unlink()
    capsys.readouterr()
    found = study.study(config, out)['examined']['values']
    assert 'their checkpoints are missing: a/seed_0' in capsys.readouterr().out
    assert found == first['values'] | {'a/seed_0': {}}
