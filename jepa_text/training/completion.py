"""Completes a config: derived settings are decided once, and written to config.json.

    with_init_from    the model section and tied heads of the model that the run starts
                      from (init_from.py)
    with_baseline     the phases of a matched baseline
    with_extension    the history of a run that gets more steps

The matched baseline of a run is MLM alone, with the same FLOPs: each phase with a latent
term becomes its MLM part, with as many more steps as give the same FLOPs
(models/flops.py). The schedule of the learning rate stretches with the run, and lengths
in steps of a phase with the phase.

If a run is extended, its last phase gets more steps, and its learning rate rises linearly
from its last value to that of a run of the new length, and then follows the schedule of
that run. After a decay this is re-warming and re-decaying (arXiv 2403.08763). Schedules
of the last phase's objective, such as that of the EMA momentum, stretch with the phase.
The run equals one that had the new length from the start only if no schedule had other
values until then; messages say which had. config.json records the extension:

    extended = [{'at': step, 'steps': of the run before, 'schedule': ..., 'rise': steps}]
"""

from pathlib import Path

import jax
import numpy as np

from jepa_text.config import ranges, resolve
from jepa_text.files import checksums
from jepa_text.optim import schedules
from jepa_text.parallel import processes
from jepa_text.running import budget, restore
from jepa_text.training import preflight
from jepa_text.training import recipe as recipes

BASELINES = ('none', 'flops')
# Keys that may change in an extended run, besides the length of its last phase.
MAY_CHANGE = ('steps', 'tokens', 'schedule', 'extended')
RISE = 0.01  # length of the rise if the schedule has no warm-up, of the steps to come
_TOLERANCE = 0.01  # for equal learning rates, of the higher one


def with_init_from(config, folder=None):
    """Returns the config with the model section and `tied` of heads from `init_from`.

    Without `init_from`, returns the config unchanged. What the run in `folder` has
    recorded about its start is not read again. Raises ValueError for keys that do not
    apply to the start, and what reading the start raises.
    """
    if not config.get('init_from'):
        return config
    from jepa_text.training import init_from

    source = init_from.parse(config['init_from'])
    model = dict(config.get('model') or {})
    return config | init_from.inferred(source, model, config['phases'], folder)


def with_baseline(config, folder, mesh=None):
    """Returns the config of the baseline that `config['baseline']` names.

    With 'none', returns the config unchanged. Otherwise `baseline` becomes {'by': kind,
    'ratios': [relative cost of a step, by phase]}, so that config.json records what was
    matched; a config with such an entry is returned unchanged. `mesh` is that of the
    devices of this job, unless given. What follows from `init_from` is added first.
    Raises ValueError as in _check_baseline.
    """
    kind = config['baseline']
    if kind == 'none' or (isinstance(kind, dict) and {*kind} == {'by', 'ratios'}):
        return config
    with processes.fail_together('the baseline'):
        config = with_init_from(config, folder)
        # For the size of a stand-in, if there is no tokenizer yet, as in a plan.
        vocab_size = (config.get('plan') or {}).get('vocab_size')
        if folder is not None:
            config = _with_first_steps(config, folder)
        mesh = recipes.mesh(config) if mesh is None else mesh
        recipe = recipes.outline(config, mesh, vocab_size)
        _check_baseline(kind, recipe.phases)
        # The baseline itself lacks some of the modules that they may match.
        preflight.lr_multipliers(recipe, config['optimizer'])
        plain = recipe.make_phases(_without_latents(recipe.phases), recipe.steps)
        ratios = _flops_ratios(recipe, plain)
    sections = _without_latents(recipe.phases, ratios)
    return _stretched(config, recipe.steps, sections) | {
        'baseline': {'by': kind, 'ratios': ratios}
    }


def as_planned(config, mesh):
    """Returns the config with its start and its baseline on a mesh, before it has a
    folder."""
    return with_baseline(with_init_from(config), None, mesh)


def _with_first_steps(config, folder):
    """Returns a config that is not matched yet, in which all phases but the last have the
    steps with which the run in the folder began, also if it gets more steps."""
    saved = _saved(folder)
    if saved is None or not isinstance(matched := saved.get('baseline'), dict):
        return config
    history = saved.get('extended') or [saved]
    before = [phase['steps'] for phase in saved['phases'][:-1]]
    lengths = [*before, history[0]['steps'] - sum(before)]
    first = sum(round(n / ratio) for n, ratio in zip(lengths, matched['ratios']))
    last = {k: v for k, v in config['phases'][-1].items() if k != 'share'}
    before = lengthened(config['phases'], first)[:-1]
    return config | {'phases': [*before, last]}


def _stretched(config, steps, sections):
    """Returns the config with other phases; its schedule and steps stretch with them."""
    total = sum(section['steps'] for section in sections)
    schedule = stretched(config['schedule'], total / steps)
    tokens = {'tokens': 0} if 'tokens' in config else {}
    return config | tokens | dict(phases=sections, steps=total, schedule=schedule)


def _mlm_section(phase):
    """Returns the objective's section without its latent term; None if it has none."""
    return phase.objective.baseline(phase.section['objective'])


def _check_baseline(kind, phases):
    """Raises ValueError for an unknown kind, and if no phase has a latent term."""
    resolve.check_choice('baseline', kind, BASELINES)
    if not any(map(_mlm_section, phases)):
        raise ValueError(
            f'baseline={kind!r}, but no phase has a latent term: '
            f'{", ".join(phase.name for phase in phases)}. Set baseline=none.'
        )


def _without_latents(phases, ratios=None):
    """Returns sections without latent terms, and with phases stretched by the ratios."""
    made = []
    for phase, ratio in zip(phases, ratios or [1] * len(phases)):
        section = {key: value for key, value in phase.section.items() if key != 'share'}
        mlm = _mlm_section(phase)
        if mlm and isinstance(rate := mlm.get('rate'), dict):
            mlm = mlm | {'rate': stretched(rate, ratio)}
        if section.get('at_switch'):
            section['at_switch'] = stretched(section['at_switch'], ratio)
        steps = max(1, round(phase.steps * ratio))
        made.append(section | {'objective': mlm or section['objective'], 'steps': steps})
    return made


def stretched(section, factor):
    """Returns a section with its lengths in steps multiplied by a factor.

    Shares of a run or a phase stay as they are, as does a number in place of a section.
    """
    if not isinstance(section, dict):
        return section
    lengths = {
        key: max(1, round(section[key] * factor))
        for key in ('warmup', 'decay', 'steps', 'rewarm', 'first', 'again')
        if section.get(key, 0) >= 1
    }
    return section | lengths


def _flops_ratios(recipe, plain):
    """Returns, for each phase, its FLOPs per step relative to its phase in `plain`.

    `plain` are the phases without latent terms; the ratio is 1 for equal phases.
    """
    costs = [
        [recipe.cost(phase).model for phase in phases]
        for phases in (recipe.phases, plain)
    ]
    return [own / base for own, base in zip(*costs)]


def with_extension(config, folder):
    """Returns the config with the history of the run in the folder, if it gets more
    steps.

    Only the last phase grows; earlier phases keep their steps. A config without more
    steps than the run had, or of a run without a checkpoint, is returned unchanged;
    `workdir` rejects fewer steps.
    """
    saved = _saved(folder)
    if saved is None:
        return config
    history = saved.get('extended', [])
    before, total = recipes.size(saved)[1], recipes.size(config)[1]
    if total > before:
        at = restore.newest_good_step(Path(folder, 'checkpoints'))
        if at is None:
            return config
        entry = {'at': at, 'steps': before, 'schedule': saved['schedule']}
        entry['rise'] = rise(config['schedule'], total - at)
        history = [*history, entry]
    if not history:
        return config
    phases = lengthened(config['phases'], history[0]['steps'])
    return config | {'extended': history, 'phases': phases}


def as_trained(config, folder):
    """Returns the config with its baseline and the history of the run in the folder."""
    return with_extension(with_baseline(config, folder), folder)


def extension_may_change(config, folder):
    """Returns the dotted keys that may differ from those of the run that is extended."""
    saved = _saved(folder)
    if saved is None or len(config.get('extended', [])) <= len(saved.get('extended', [])):
        return ()
    last = len(config['phases']) - 1
    lengths = [f'phases.{last}.steps']
    before = lengthened(saved['phases'], config['extended'][0]['steps'])
    if before[-1].get('at_switch') == config['phases'][-1].get('at_switch'):
        # A new warm-up that was a share is written out in steps, too.
        lengths.append(f'phases.{last}.at_switch.rewarm')
    if _steps(before) == _steps(config['phases']):
        # Phases with a `share` have their steps written out now; they are the same.
        numbers = range(last + 1)
        lengths += [f'phases.{n}.{key}' for n in numbers for key in ('share', 'steps')]
    return (*MAY_CHANGE, *lengths)


def _steps(phases):
    """Returns the steps of all phases but the last."""
    return [phase.get('steps') for phase in phases[:-1]]


def _saved(folder):
    """Returns the config of a run that has a checkpoint; None without a checkpoint.

    Raises ValueError, naming the file, if it is damaged: a flipped bit in the number of
    steps must not be mistaken for an extension.
    """
    path = Path(folder, 'config.json')
    if not path.is_file() or not restore.steps(Path(folder, 'checkpoints')):
        return None
    saved = checksums.read_json(path)
    try:
        steps = recipes.size(saved)[1]
        earlier = [entry['steps'] for entry in saved.get('extended', [])]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f'{path} is damaged or was edited: {error}') from error
    newest = restore.newest(Path(folder, 'checkpoints'), restore.meta)
    recorded = newest[1].get('steps', steps) if newest else steps
    if recorded not in (steps, *earlier):
        raise ValueError(
            f'{path} is damaged or was edited: it describes {steps:,} steps, '
            f'but the newest checkpoint next to it belongs to a run of {recorded:,}. '
            'Restore the file from a copy.'
        )
    return saved


def lengthened(sections, first_total):
    """Returns sections of phases with the steps that they had in a run of `first_total`
    steps; the last phase takes the rest, and its new warm-up keeps its steps."""
    try:
        spans = budget.spans(sections, first_total)
    except ValueError:  # their own steps add up to the new length
        *before, last = sections
        steps = first_total - sum(section.get('steps', 0) for section in before)
        return [*before, _with_rewarm_in_steps(last, steps)]
    fixed = [
        {k: v for k, v in section.items() if k != 'share'} | {'steps': stop - start}
        for section, (start, stop) in zip(sections[:-1], spans)
    ]
    last = {k: v for k, v in sections[-1].items() if k not in ('share', 'steps')}
    return [*fixed, _with_rewarm_in_steps(last, spans[-1][1] - spans[-1][0])]


def _with_rewarm_in_steps(section, steps):
    """Returns the section of a phase of so many steps. A share of more steps would let
    the learning rate fall back into the new warm-up."""
    at_switch = section.get('at_switch') or {}
    if not at_switch.get('rewarm'):
        return section
    rewarm = ranges.in_steps(at_switch['rewarm'], steps)
    return section | {'at_switch': at_switch | {'rewarm': rewarm}}


def rise(schedule, steps_left):
    """Returns the steps in which the learning rate rises to a new schedule.

    They are the steps of its warm-up, or the fraction RISE of the steps left.
    """
    warmup = schedule.get('warmup', 0) if isinstance(schedule, dict) else 0
    rising = ranges.in_steps(warmup or RISE, steps_left)
    return max(1, min(rising, steps_left // 2))


def changed_schedules(history, phase, tokenizer):
    """Returns {name: (value of the last step, of the next)} of the objective's schedules
    that an extension changes, because they span the last phase; `phase` is that phase."""
    changed, now = {}, phase.objective.schedules()
    for entry in history:
        done = entry['at'] - phase.start
        if done <= 0:
            continue
        objective = resolve.build(
            'objectives',
            phase.section['objective'],
            tokenizer=tokenizer,
            length=phase.length,
            steps=entry['steps'] - phase.start,
        )
        for name, old in objective.schedules().items():
            if _differ(old, now[name], done):
                changed[name] = float(old(done - 1)), float(now[name](done))
    return changed


def _differ(old, new, steps):
    """Returns whether two schedules differ in any of the first steps."""
    return not np.allclose(*(jax.vmap(x)(np.arange(steps)) for x in (old, new)))


def extension_lines(history, schedule, total, name, changed):
    """Returns messages about the newest extension.

    `name` is that of the last phase, `total` the number of steps of the extended run, and
    `changed` what changed_schedules returns.
    """
    newest = history[-1]
    at, rising = newest['at'], newest['rise']
    old = schedules.for_run(newest['schedule'], newest['steps'], history[:-1])
    new = schedules.make(schedule, total)
    # The rate of the last step so far, and that of a run that always had the new length.
    last_rate, target_rate = float(old(max(at - 1, 0))), float(new(at))
    lines = [
        f'extended from {newest["steps"]:,} to {total:,} steps, at step {at:,}: the last '
        f'phase ({name}) becomes longer.'
    ]
    if abs(last_rate - target_rate) <= _TOLERANCE * max(abs(last_rate), abs(target_rate)):
        lines.append(f'The learning rate continues at {last_rate:.3g}.')
    else:
        lines.append(
            f'The learning rate was {last_rate:.3g}. A run of {total:,} steps has '
            f'{target_rate:.3g} at this step, so the rate goes there in {rising:,} '
            f'step{"s" * (rising > 1)}, and then follows that schedule.'
        )
    lines += [
        f'The {what} was {before:.4g} and continues at {after:.4g}, as its schedule '
        'spans the longer phase.'
        for what, (before, after) in changed.items()
    ]
    others = ['learning rate'] * _differ(old, new, at) + [*changed]
    if others:
        lines.append(
            'The result differs from that of a run of this length from the start: its '
            f'{" and ".join(others)} had other values in the steps so far.'
        )
    return lines
