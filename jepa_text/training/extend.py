"""A run gets more steps: its last phase becomes longer, its learning rate goes on.

The rate rises, in a straight line, from where it stood to what a run of so many steps
has there, and ends as that does. Where both are equal, as in the middle of a stable
phase, the run is as if it had had that length from the start. After a decay this is
re-warming and decaying again (arXiv 2403.08763). config.json keeps what was before:

    extended = [{'at': step, 'steps': of the run before, 'schedule': ..., 'rise': steps}]
"""

from pathlib import Path

from jepa_text.config import ranges
from jepa_text.files import seal
from jepa_text.optim import schedules
from jepa_text.running import restore, workdir
from jepa_text.training import recipe

# What may differ in a run that gets more steps, beside the length of its last phase.
MAY_CHANGE = ('steps', 'tokens', 'schedule', 'extended')
SHARE = 0.01  # of the steps to come: the rise, where the schedule has no warm-up
_ALIKE = 0.01  # of the higher rate


def extended(config, folder):
    """The config with what the run in the folder was before it got more steps.

    The same for a run that has no checkpoint, and one that gets no more steps than it
    had, which `workdir` refuses. Beyond the first length only the last phase grows:
    earlier ones keep the steps that they had.
    """
    saved = _saved(folder)
    if saved is None:
        return config
    past, before = saved.get('extended', []), recipe.size(saved)[1]
    total = recipe.size(config)[1]
    if total > before:
        at = restore.newest_good_step(Path(folder, 'checkpoints'))
        if at is None:
            return config
        was = {'at': at, 'steps': before, 'schedule': saved['schedule']}
        past = [*past, was | {'rise': _rise(config['schedule'], total - at)}]
    if not past:
        return config
    phases = _lengthened(config['phases'], past[0]['steps'])
    return config | {'extended': past, 'phases': phases}


def may_change(config, folder):
    """Dotted keys that may differ from those of the run in the folder, as it grows."""
    saved = _saved(folder)
    if saved is None or len(config.get('extended', [])) <= len(saved.get('extended', [])):
        return ()
    return (*MAY_CHANGE, f'phases.{len(config["phases"]) - 1}.steps')


def lines(config):
    """What the newest extension means, in sentences; none of a run that had none."""
    if not config.get('extended'):
        return []
    was, total = config['extended'][-1], recipe.size(config)[1]
    at, rise, name = was['at'], was['rise'], config['phases'][-1]['objective']['name']
    old = schedules.of_run(was['schedule'], was['steps'], config['extended'][:-1])
    # The rate of the step that was the last, and those of a run that was always as long.
    stood, there = float(old(max(at - 1, 0))), schedules.make(config['schedule'], total)
    said = [
        f'extended from {was["steps"]:,} to {total:,} steps, at step {at:,}: the last '
        f'phase ({name}) becomes longer.'
    ]
    if _alike(stood, float(there(at))):
        said.append(f'The learning rate goes on at {stood:.3g}.')
    else:
        said.append(
            f'The learning rate stood at {stood:.3g}. A run of {total:,} steps has '
            f'{float(there(at)):.3g} there, so it goes to that in {rise:,} '
            f'step{"s" * (rise > 1)}, and on '
            'as that. This is not the same as a run of that length from the start.'
        )
    return said


def _alike(a, b):
    return abs(a - b) <= _ALIKE * max(abs(a), abs(b))


def _rise(section, left):
    """Steps in which the rate goes to the new schedule: its warm-up, or SHARE."""
    warmup = section.get('warmup', 0) if isinstance(section, dict) else 0
    return max(1, min(ranges.in_steps(warmup or SHARE, left), left // 2))


def _lengthened(phases, first):
    """Phases with the steps they had in a run of `first`; the last takes the rest."""
    try:
        spans = recipe.phase_spans(phases, first)
    except ValueError:  # their own steps add up to the new length
        return phases
    fixed = [
        {k: v for k, v in phase.items() if k != 'share'} | {'steps': stop - start}
        for phase, (start, stop) in zip(phases[:-1], spans)
    ]
    last = {k: v for k, v in phases[-1].items() if k not in ('share', 'steps')}
    return [*fixed, last]


def _saved(folder):
    """The config of a run that has a checkpoint; None without one.

    Raises ValueError, which names the file, where it is damaged: a length that flipped on
    the disk is no wish for more steps.
    """
    path = Path(folder, 'config.json')
    if not path.is_file() or not workdir.has_step(Path(folder, 'checkpoints')):
        return None
    saved = seal.read_json(path)
    try:
        steps = recipe.size(saved)[1]
        grown = [one['steps'] for one in saved.get('extended', [])]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f'{path} is damaged or was edited: {error}') from error
    newest = restore.newest_good(Path(folder, 'checkpoints'))
    known = newest[1].get('steps', steps) if newest else steps
    if known not in (steps, *grown):
        raise ValueError(
            f'{path} is damaged or was edited: it tells of a run of {steps:,} steps, the '
            f'newest checkpoint beside it of one of {known:,}. Bring it back from a copy.'
        )
    return saved
