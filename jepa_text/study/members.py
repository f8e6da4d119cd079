"""The members of a study: what they are called, what they are set to, how they stand.

workdir/study.json     {'members': {name: {'fingerprint', 'config'}}}

A member is a run, or a run with one of its seeds. How it stands is read from files each
time: the checkpoints in its folder, and what was measured of it. One that has begun keeps
its config; what does not count is what a resumed run may change (training/build.py).
"""

import json
import os
import re
from pathlib import Path

from jepa_text.files import atomic, checksums
from jepa_text.running import restore, workdir
from jepa_text.training import assemble, build, completion, extend
from jepa_text.training import config as settings

FILE = 'study.json'
UNTRAINED = 'untrained'
EVALUATED = 'evaluated'
EXAMINED = 'examined'
# What a run cannot be called, as something else in the workdir is.
TAKEN = (
    *(UNTRAINED, EVALUATED, EXAMINED, 'rows', 'claims', 'figures', FILE),
    *('results.json', 'report.html', 'appendix.md'),
)
_NAME = re.compile(r'[\w.+-]{1,100}')


def configs(config, rows):
    """{name: config of that member}, in order: the shared keys, overridden by those of
    its run, all on the rows of the folder.

    Raises ValueError for names that cannot be folders here, and for what no run takes.
    """
    check_names([run.get('name') for run in config['runs']])
    folder = os.path.abspath(rows)
    shared = {key: x for key, x in config.items() if key != 'prepare'}
    own = [
        {**run, 'data': {**config['data'], **(run.get('data') or {}), 'folder': folder}}
        for run in config['runs']
    ]
    return settings.of_runs({**shared, 'runs': own})


def check_names(names):
    """Raises ValueError unless the names of the runs can be folders beside each other."""
    folded = [str(name).casefold() for name in names]
    for name, short in zip(names, folded):
        wrong = not isinstance(name, str) or not _NAME.fullmatch(name)
        if wrong or short in TAKEN or not name.strip('.'):
            raise ValueError(
                f'runs: {name!r} is no name for a run: it must be of letters, digits and '
                f'. _ + -, and none of {", ".join(TAKEN)}.'
            )
        # Some file systems do not tell letters by their case.
        if folded.count(short) > 1:
            raise ValueError(
                f'runs: {name!r} is the name of {folded.count(short)} runs (upper and '
                'lower case are one): give each its own.'
            )


def recipe_of(name):
    """(run, seed) of a member that is one of several seeds; None of another.

    >>> recipe_of('mlm/seed_3'), recipe_of('mlm')
    (('mlm', 3), None)
    """
    run, _, seed = name.partition('/seed_')
    return (run, int(seed)) if seed else None


def enroll(folder, configs, write=True):
    """Writes into study.json who the members are: {name: fingerprint}.

    Without `write` only says so. Members that are not among `configs` stay as they are.
    Raises ValueError, with the keys that differ, for one that has begun with another
    config.
    """
    folder = Path(folder)
    before, now = _entries(folder, configs)
    if write and now != before:
        text = json.dumps({'members': now}, indent=1, sort_keys=True) + '\n'
        atomic.write(folder / FILE, text)
    if others := before.keys() - configs.keys():
        print(
            f'{folder} has other members, which stay as they are: '
            f'{", ".join(sorted(others))}'
        )
    return {name: now[name]['fingerprint'] for name in configs}


def is_enrolled(folder, configs):
    """Does study.json have all of these members as they are? Raises as `enroll`."""
    before, now = _entries(Path(folder), configs)
    return before == now


def _entries(folder, configs):
    """What study.json says, and what it is to say."""
    before = _read(folder / FILE)
    now, refused = dict(before), []
    for name, config in configs.items():
        _check_folder(folder, name)
        old = before[name]['config'] if name in before else {}
        changed = _changed(old, config)
        if old and not changed and assemble.size(old) == assemble.size(config):
            continue  # so that its fingerprint outlives new keys of new versions
        if old and changed and begun(folder, name):
            refused.append(f'{name!r}: {workdir.listed(changed)}')
        now[name] = {'fingerprint': fingerprint(config), 'config': config}
    if refused:
        raise ValueError(
            f'{len(refused)} of the members in {folder} began with another config: '
            f'{"; ".join(refused)}. Set it back, or give the changed run another name, '
            'or the study another --workdir.'
        )
    return before, now


def fingerprint(config):
    """A checksum of all that counts of the config of a member."""
    return checksums.checksum(_changed({}, config))


def begun(folder, name):
    """Has a member saved a state, or is its result there?"""
    steps = Path(folder, name, 'checkpoints')
    return workdir.has_step(steps) or result_path(folder, name).is_file()


def result_path(folder, name):
    """The file of what was measured of a member."""
    return Path(folder, EVALUATED, f'{name}.json')


def finished(folder, config):
    """Has the run of this very config taken its last step in this folder?"""
    path = Path(folder) / workdir.CONFIG
    if not path.is_file():
        return False
    newest = restore.newest_good_step(Path(folder) / 'checkpoints')
    if newest is None:
        return False
    config = completion.extended(completion.matched(config, folder), folder)
    is_same = not _changed(checksums.read_json(path), config)
    return is_same and newest == assemble.size(config)[1]


def _read(path):
    """{name: entry} of study.json; none where it is not there."""
    if not path.is_file():
        return {}
    saved = checksums.read_json(path)
    try:
        return {
            name: {**entry, 'config': settings.plain(entry['config'])}
            for name, entry in saved['members'].items()
        }
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f'{path} is damaged or was edited ({error}). Bring it back from a copy; '
            'without it, each run is compared with the config.json in its folder.'
        ) from error


def _changed(old, new):
    """What counts of the differences of two configs of a member; that it gets more steps
    does not."""
    changed = workdir.differences(old, json.loads(json.dumps(new)))
    free = (*build.free(new), 'name')
    if old and assemble.size(new)[1] > assemble.size(old)[1]:
        free += (*extend.MAY_CHANGE, f'phases.{len(new["phases"]) - 1}.steps')
    return workdir.harming(changed, free)


def _check_folder(folder, name):
    run, _, seed = name.partition('/')
    if seed and (folder / run / workdir.CONFIG).exists():
        raise ValueError(
            f'{folder / run} is the folder of a run without seeds, so {name!r} has no '
            'room there: give the run with seeds another name.'
        )
