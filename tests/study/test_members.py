"""Names and configs of members, which cannot change once a member has begun."""

import json

import pytest

from jepa_text.study import members, study
from jepa_text.training import config as settings

MLM = (dict(objective=dict(name='mlm')),)


def made(**changes):
    """Returns the config of a study; its runs are not trained here."""
    shared = dict(
        steps=10,
        data=dict(row_length=32, batch_size=8),
        model=dict(name='transformer', preset='tiny'),
        prepare=dict(source=dict(name='bundled'), tokenizer='bundled', row_length=32),
        runs=(dict(name='a', phases=MLM), dict(name='b', phases=MLM)),
    )
    return study.plain(shared | changes)


def enrolled(folder, **changes):
    return members.enroll(folder, members.configs(made(**changes), folder / 'rows'))


def begin(folder, name):
    step = folder / name / 'checkpoints' / '5'
    step.mkdir(parents=True)
    (step / 'CHECKSUMS.json').write_text('{}')


def test_a_run_with_seeds_has_one_member_per_seed():
    runs = (
        dict(name='a', phases=MLM),
        dict(name='b', phases=MLM, seeds=(7.0,)),
        dict(name='c', phases=MLM, seeds=()),
    )
    found = settings.of_runs(made(runs=runs, seeds=(0, 3)))
    seeds = {name: config['seed'] for name, config in found.items()}
    assert seeds == {'a/seed_0': 0, 'a/seed_3': 3, 'b/seed_7': 7, 'c': 0}
    assert all(config['name'] == name for name, config in found.items())
    assert members.recipe_of('a/seed_3') == ('a', 3)
    # A run without seeds is a single member.
    assert list(settings.of_runs(made())) == ['a', 'b']


def test_a_section_without_a_name_changes_that_of_the_study():
    """As on the command line; it does not fall back to the default."""
    wsd = dict(name='wsd', peak=1e-3, warmup_steps=3, decay_steps=2)
    constant = dict(name='constant', value=1e-2)
    runs = (
        dict(name='a', phases=MLM, schedule=dict(peak=1e-2), model=dict(depth=1)),
        dict(name='b', phases=MLM, schedule=constant, optimizer=dict(weight_decay=0.0)),
        dict(name='c', phases=MLM, model=dict(depth=1), init_from=dict(path='a')),
    )
    optimizer = dict(name='muon', momentum=0.9)
    config = made(runs=runs, schedule=wsd, optimizer=optimizer)
    a, b, c = members.configs(config, 'rows').values()
    assert (a['schedule'], a['optimizer']) == (wsd | {'peak': 1e-2}, optimizer)
    assert a['model'] == dict(name='transformer', preset='tiny', depth=1)
    assert (b['schedule'], b['optimizer']) == (constant, optimizer | {'weight_decay': 0})
    assert c['model'] == dict(depth=1)  # of the model that it starts from


def test_a_member_that_has_begun_keeps_its_config(tmp_path):
    first = enrolled(tmp_path)
    assert first['a'] == first['b']
    # The config may change as long as nothing is saved.
    second = enrolled(tmp_path, clip_norm=0.5)
    assert second['a'] != first['a']
    begin(tmp_path, 'b')
    with pytest.raises(ValueError, match="1 of the members .*'b': clip_norm: 0.5 -> 0.7"):
        enrolled(tmp_path, clip_norm=0.7)
    assert enrolled(tmp_path, clip_norm=0.5) == second


def test_machine_and_logging_settings_may_change(tmp_path):
    first = enrolled(tmp_path)
    begin(tmp_path, 'a')
    others = dict(log_every_steps=3, checkpoint=dict(every_steps=2), plan=dict(mfu=0.2))
    assert enrolled(tmp_path, **others) == first
    configs = members.configs(made(), tmp_path / 'moved' / 'rows')
    assert members.enroll(tmp_path, configs) == first
    assert members.fingerprint(configs['a']) == first['a']


def test_microbatches_are_a_part_of_members_whose_loss_depends_on_them(tmp_path):
    latent = dict(regularizer=dict(name='sigreg', weight=0.1))
    lejepa = dict(objective=dict(name='hybrid', latent=latent))
    runs = (dict(name='a', phases=MLM), dict(name='b', phases=(lejepa,)))
    first = enrolled(tmp_path, runs=runs)
    begin(tmp_path, 'a')
    second = enrolled(tmp_path, runs=runs, accumulate=2)
    assert second['a'] == first['a'] and second['b'] != first['b']
    begin(tmp_path, 'b')
    with pytest.raises(ValueError, match="1 of the members .*'b': accumulate: 2 -> 1"):
        enrolled(tmp_path, runs=runs)


def test_new_members_do_not_change_existing_ones(tmp_path, capsys):
    first = enrolled(tmp_path, seeds=(0,))
    begin(tmp_path, 'a/seed_0')
    runs = (*made()['runs'], dict(name='c', phases=MLM))
    more = enrolled(tmp_path, seeds=(0, 1), runs=runs)
    assert len(more) == 6 and first.items() <= more.items()
    assert 'other members' not in capsys.readouterr().out
    # With fewer members, existing entries remain.
    assert enrolled(tmp_path, seeds=(1,)).items() <= more.items()
    said = capsys.readouterr().out
    assert 'other members, which are left unchanged: a/seed_0, b' in said
    saved = json.loads((tmp_path / 'study.json').read_text())['members']
    assert {name: entry['fingerprint'] for name, entry in saved.items()} == more


def test_a_run_cannot_get_seeds_later(tmp_path):
    (tmp_path / 'a').mkdir()
    (tmp_path / 'a' / 'config.json').write_text('{}')
    enrolled(tmp_path)
    with pytest.raises(ValueError, match="without seeds, .* cannot contain 'a/seed_0'"):
        enrolled(tmp_path, seeds=(0, 1))


@pytest.mark.parametrize('text', ['{', '{}', '{"members": {"a": {}}}'])
def test_a_damaged_list_of_members_is_reported(tmp_path, text):
    (tmp_path / 'study.json').write_text(text)
    with pytest.raises(ValueError, match=r'study.json is damaged.*remove it'):
        enrolled(tmp_path)


def test_a_list_of_members_of_another_version_names_the_key(tmp_path):
    enrolled(tmp_path)
    saved = json.loads((tmp_path / 'study.json').read_text())
    for entry in saved['members'].values():
        entry['config']['compilation_cache'] = 'x'
    (tmp_path / 'study.json').write_text(json.dumps(saved))
    words = 'another version .*compilation_cache.* Use the version that wrote it'
    with pytest.raises(ValueError, match=words):
        enrolled(tmp_path)


def test_data_of_a_run_changes_that_of_the_study():
    """Also in a plan, which has no folder of rows."""
    runs = [dict(name='a', phases=MLM, data=dict(batch_size=3))]
    config = made(runs=runs, data=dict(row_length=24, batch_size=8))
    (planned,) = settings.of_runs(config).values()
    (member,) = members.configs(config, 'rows').values()
    for one in (planned, member):
        assert (one['data']['row_length'], one['data']['batch_size']) == (24, 3)
