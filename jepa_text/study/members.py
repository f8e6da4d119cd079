"""The members of a study: their names, configs and progress.

workdir/study.json     {'members': {name: {'fingerprint', 'config'}}}

A member is a run, or a run with one of its seeds. Its progress is read from files each
time: the checkpoints in its folder, and its measured results. A member that has begun
keeps its config, except for keys that a resumed run may change (training/config.py).
"""

import json
import os
import re
from pathlib import Path

from jepa_text import engine
from jepa_text.data import section, tokenizers
from jepa_text.files import atomic, checksums
from jepa_text.running import budget, restore, workdir
from jepa_text.settings import ranges, resolve
from jepa_text.training import config as settings

FILE = 'study.json'
UNTRAINED = 'untrained'
EVALUATED = 'evaluated'
EXAMINED = 'examined'
# Names that runs cannot have, as they are used for other files in the workdir.
TAKEN = (
    *(UNTRAINED, EVALUATED, EXAMINED, engine.LOGS, engine.LOCK, 'rows', 'figures'),
    *(FILE, 'results.json', 'report.html', 'appendix.md'),
)
_NAME = re.compile(r'[\w.+-]+')
_LONGEST = 100  # bytes of a name, as file systems count them


def configs(config, rows):
    """Returns {name: config} of all members, in order: the shared keys of the study,
    overridden by those of the run, reading the rows of the folder `rows`.

    Raises ValueError for names that cannot be folders, and for keys that no run takes.
    """
    check_names([run.get('name') for run in config['runs']])
    folder = os.path.abspath(rows)
    shared = {key: x for key, x in config.items() if key != 'prepare'}
    own = []
    for run in config['runs']:
        data = run.get('data') or {}
        ranges.section(f'run {run["name"]!r}: data', data)
        named = [f'data.{key}' for key in ('folder', 'mixture') if data.get(key)]
        if named or run.get('prepare'):
            raise ValueError(
                f'run {run["name"]!r}: {", ".join(named) or "prepare"} is for other '
                'rows, but runs of a study read those that it prepares. Set `data` of '
                'its phases instead, or start another study.'
            )
        own.append({**run, 'data': {**data, 'folder': folder}})
    return settings.of_runs({**shared, 'runs': own})


def check_names(names):
    """Raises ValueError unless the names of the runs can be folders of a workdir."""
    for name in names:
        short = str(name).casefold()
        invalid = not isinstance(name, str) or not _NAME.fullmatch(name)
        # With .json, it could be the result of another run.
        invalid = invalid or not name.strip('.') or short.endswith('.json')
        if invalid or short in TAKEN or len(name.encode()) > _LONGEST:
            raise ValueError(
                f'runs: {name!r} is not a valid name: use at most {_LONGEST} bytes of '
                f'letters, digits and . _ + -, without .json at the end, and none of '
                f'{", ".join(TAKEN)}.'
            )


def recipe_of(name):
    """Returns (run, seed) of a member; 0 for that of a run without seeds.

    >>> recipe_of('mlm/seed_3'), recipe_of('mlm')
    (('mlm', 3), ('mlm', 0))
    """
    run, _, seed = name.partition('/seed_')
    return run, int(seed or 0)


def enroll(folder, configs, write=True):
    """Writes the members to study.json if `write`, and returns {name: fingerprint}.

    Entries of members that are not in `configs` are left unchanged. Raises ValueError,
    with the keys that differ, for a member that has begun with another config.
    """
    folder = Path(folder)
    before, now = _entries(folder, configs)
    if write and now != before:
        text = json.dumps({'members': now}, indent=1, sort_keys=True) + '\n'
        atomic.write(folder / FILE, text)
    if others := before.keys() - configs.keys():
        print(
            f'{folder} has other members, which are left unchanged: '
            f'{", ".join(sorted(others))}'
        )
    return {name: now[name]['fingerprint'] for name in configs}


def _entries(folder, configs):
    """Returns the entries of study.json, and the entries that it should have."""
    before = _read(folder / FILE)
    now, conflicts = dict(before), []
    for name, config in configs.items():
        _check_folder(folder, name)
        old = before[name]['config'] if name in before else {}
        changed = _changed(old, config)
        if old and not changed:
            continue  # keeps its fingerprint when a new version adds keys
        has_begun = restore.steps(folder / name / 'checkpoints')
        if old and changed and (has_begun or result_path(folder, name).is_file()):
            conflicts.append(f'{name!r}: {workdir.describe(changed)}')
        now[name] = {'fingerprint': fingerprint(config), 'config': config}
    if conflicts:
        raise ValueError(
            f'{len(conflicts)} of the members in {folder} began with another config: '
            f'{"; ".join(conflicts)}. Restore the old values, rename the changed run, or '
            'use another --workdir.'
        )
    return before, now


def fingerprint(config):
    """Returns a checksum of the keys of a config that affect the result of a member."""
    return checksums.checksum(_changed({}, config))


def result_path(folder, name):
    """Returns the file with the measured results of a member."""
    return Path(folder, EVALUATED, f'{name}.json')


def finished(folder, config):
    """Whether a run with exactly this completed config has taken its last step in the
    folder, and that step was finite."""
    path = Path(folder) / workdir.CONFIG
    if not path.is_file():
        return False
    newest = restore.newest_good(Path(folder) / 'checkpoints')
    if newest is None or newest[1].get('skipped_in_row'):
        return False
    is_same = not _changed(checksums.read_json(path), config)
    return is_same and newest[0] == budget.total_steps(config)


def _read(path):
    """Returns {name: entry} of study.json; {} if it does not exist."""
    if not path.is_file():
        return {}
    try:
        saved = checksums.read_json(path, dict)['members']
        return {
            name: {**entry, 'config': settings.plain(entry['config'])}
            for name, entry in saved.items()
        }
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f'{path} is damaged, or of another version of jepa-text ({error}). Use the '
            'version that wrote it, restore it from a copy, or remove it: each run is '
            'then compared with the config.json in its folder.'
        ) from error


def _changed(old, new):
    """Returns the differences of two configs of a member that affect its result."""
    changed = workdir.differences(old, json.loads(json.dumps(new)))
    try:
        allowed = settings.changeable_keys(_objectives(new))
    except ValueError as error:
        raise ValueError(f'run {new["name"]!r}: {error}') from error
    return workdir.disallowed(changed, allowed)


def _objectives(config):
    spans = budget.spans(config['phases'], budget.total_steps(config))
    return [
        resolve.build(
            'objectives',
            phase['objective'],
            tokenizer=tokenizers.load(tokenizers.BUNDLED),
            length=section.changed(config['data'], phase.get('data'))['row_length'],
            steps=stop - start,
        )
        for phase, (start, stop) in zip(config['phases'], spans)
    ]


def _check_folder(folder, name):
    run, _, seed = name.partition('/')
    if seed and (folder / run / workdir.CONFIG).exists():
        raise ValueError(
            f'{folder / run} is the folder of a run without seeds, so it cannot contain '
            f'{name!r}. Rename the run with seeds.'
        )
