"""What would fail later is refused before anything is trained: one table."""

import copy

import config_of
import examined
import pytest
import tiny

from jepa_text.parallel import exits
from jepa_text.study import study

CLM, MLM = dict(objective=dict(name='clm'), steps=6), dict(objective=dict(name='mlm'))
# In the folder of the fixture `whole`: the bundled task takes seconds to build.
LABELED = dict(name='labeled', path='sea.jsonl')
WSD = dict(name='wsd', peak=1e-3, warmup_steps=0, decay_steps=50)


def runs(*names, **more):
    """Returns the change of the runs; those after the first also have `more`."""
    made = [dict(name=name, phases=[MLM]) for name in names]
    return dict(runs=[made[0], *(one | more for one in made[1:])])


def only(**keys):
    return dict(runs=[dict(name='a', phases=[MLM]) | keys])


def exam(**keys):
    section = dict(tasks=[LABELED], train=8, test=8) | keys
    return dict(examine=dict(x=section))


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    """The config of a study of the runs a and b, and the folder of its text."""
    folder = tmp_path_factory.mktemp('invalid')
    rows = [{'text': f'Whale {n} saw the <mask>.', 'answer': 'sea'} for n in range(12)]
    examined.jsonl(folder / 'cloze.jsonl', rows)
    examined.file_of(folder)
    made = {k: v for k, v in tiny.SETTINGS.items() if k not in ('name', 'seed')} | dict(
        steps=14,
        data=dict(row_length=32, batch_size=8, repeat=True),
        model=dict(name='transformer', preset='tiny', depth=1, scan=False),
        evaluate=dict(every_steps=1, max_rows=4, tasks=('sea.jsonl',)),
        prepare=config_of.prepare_of(folder, 900),
        study=dict(tasks=[]),
        **runs('a', 'b'),
    )
    return made, folder


# The change of a config, and what the message says. These are found before the rows are
# made.
KNOWN_AT_ONCE = [
    # Names of runs, and their seeds.
    (dict(runs=()), 'A study needs `runs`'),
    (runs('a', 'a'), "2 runs have the name 'a'"),
    (runs('A', 'a'), "2 runs have the name 'a'"),
    *(
        (runs('a', name), f'{name!r} is not a valid name'.replace('.', r'\.'))
        for name in ('rows', 'Rows', 'logs', 'b/c', '..', 'a.json')
    ),
    (runs('字' * 40), 'use at most 100 bytes of let'),
    (dict(seeds=(0, 0)), "run 'a': seeds=.*contains duplicates"),
    (dict(seeds=(0, 0.5)), r'seeds\[1\]=0.5'),
    (dict(seeds=(0, 1), seed=3), 'seed=3 and seeds='),
    (
        dict(data=dict(row_length=32, batch_size=8, mixture=[dict(folder='x')])),
        'data.mixture=.*: a study reads the rows',
    ),
    (
        dict(data=dict(row_length=32, batch_size=8, folder='x')),
        "data.folder='x': a study reads the rows",
    ),
    (only(seeds=(-1,)), "run 'a': seeds"),
    (only(seeds=3), "run 'a': seeds=3 must be a l"),
    (only(seeds=0), "run 'a': seeds=0 must be a l"),
    (only(seed=1) | dict(seeds=(1,)), 'set only one of'),
    # Their settings.
    (only(data=3), "run 'a': data=3 must be a"),
    (only(data=dict(folder='other')), "'a': data.folder is for other rows"),
    (only(prepare=dict(row_length=64)), "'a': prepare is for other rows"),
    (only(phases=print), r'JSON does not support \(runs\.0\.phases=<built-in functi'),
    (dict(engine=dict(jobs=0)), 'engine.jobs=0'),
    (dict(engine=dict(name='beam')), 'engine.name=.beam.'),
    # What is reported.
    (dict(report=dict(compare=[('a', 'c')])), "compare has 'c', but the runs are a, b"),
    (dict(report=dict(compare=[('a', 'b', 'a')])), 'is not a pair of runs'),
    (dict(report=dict(compare=[('a',)])), r"\('a',\) is not a pair of runs"),
    (dict(report=dict(claims='pfz')), "claims='pfz'. Did you mean 'pfs'"),
    (dict(report=dict(metrics=())), "no key 'metrics'"),
    (dict(study=dict(tasks=['word_ordr'])), "Did you mean 'word_order'"),
    (dict(study=dict(split='tset')), "study.split='tset' is not in prepare.splits"),
    # Exams.
    (exam(models=['hf:a']), 'examine.x=.*without models'),
    (exam(sedes=3), "examine.x: .*no key 'sedes'"),
    (exam(tasks=()), 'examine.x: .*needs tasks, as --task='),
    (dict(examine=dict(probes={})), "'probes' must be an identifier.* and none of"),
]
# These are found by the recipes, on the devices of the members.
BY_RECIPES = [
    (only(phases=[CLM, MLM], steps=6), "run 'a': phases"),
    (only(phases=[dict(objective=dict(name='mlmm'))]), "run 'a': .*mlmm"),
    (runs('a', 'b', phases=[dict(objective=dict(name='mlm', rate=7))]), "'b': .*rate"),
    (only(schedule=WSD), "run 'a': .*exceed"),
]
# These need rows, or tasks that may exist elsewhere.
LATER = [
    (dict(steps=4000, data=dict(repeat=False)), "run 'a': .*rows"),
    (exam(tasks=[dict(name='sst9')]), 'examine.x: .*sst9'),
    (exam(tasks=[LABELED] * 2), 'examine.x: .*Two tasks are named'),
    (exam(train=1), 'examine.x: .*two classes are needed'),
    (exam(finetuning=dict(max_length=33)), 'examine.x: .*reads rows of 32 tokens'),
    (
        exam(tasks=[dict(name='cloze', path='cloze.jsonl')])
        | only(phases=[CLM])
        | dict(steps=6),
        "run 'a': examine.x has tasks in which masks are filled",
    ),
]


@pytest.mark.parametrize('changes, says', [*KNOWN_AT_ONCE, *BY_RECIPES, *LATER])
def test_an_invalid_study_is_refused_before_training(whole, monkeypatch, changes, says):
    made, folder = copy.deepcopy(whole[0]), whole[1]
    monkeypatch.chdir(folder)
    for key, value in changes.items():
        made[key] = {**made.get(key, {}), **value} if isinstance(value, dict) else value
    is_known = (changes, says) in KNOWN_AT_ONCE
    workdir = folder / ('known' if is_known else 'out')
    for dry_run in (False, True)[: 1 + ((changes, says) not in LATER)]:
        with pytest.raises(ValueError, match=says) as caught:
            study.study(made, workdir, dry_run=dry_run)
        assert exits.code_of(caught.value) == exits.USAGE
    assert not list(workdir.glob('*/checkpoints'))
    assert not (is_known and (workdir / 'rows').exists())


def test_missing_tasks_are_reported_by_a_dry_run(whole, monkeypatch, capsys):
    """They are not an error, as they may exist on the machine that trains."""
    made, folder = whole
    # Which traces a step of each run.
    monkeypatch.setattr(study.forecast, 'of_members', lambda *_: [])
    monkeypatch.setattr(study.forecast, 'show', lambda _: None)
    tasks = exam(tasks=(dict(name='sst2', path='nowhere/SST-2'),))
    made = made | tasks | dict(evaluate=dict(every_steps=1, tasks=('unknown',)))
    study.study(made, folder / 'ahead', dry_run=True)
    said = capsys.readouterr().out
    assert 'the study would fail: examine.x: There is no file or folder nowhere' in said
    assert "the study would fail: evaluation/tasks has no 'unknown'" in said
