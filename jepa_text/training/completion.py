"""Completes a config: derived settings are decided once, and written to config.json.

plain             (config.py) as JSON, with all defaults
with_init_from    the model section and tied heads of the model that the run starts from
with_baseline     the phases of a matched baseline
as_planned        with_init_from, then with_baseline, for a plan
with_extension    the history of a run that gets more steps
as_trained        with_baseline, then with_extension
"""

from pathlib import Path

from jepa_text.files import checksums
from jepa_text.parallel import processes
from jepa_text.running import restore, workdir
from jepa_text.training import baseline, extend, init_from, preflight
from jepa_text.training import recipe as recipes


def with_init_from(config, folder=None):
    """Returns the config with the model section and `tied` of heads from `init_from`.

    Without `init_from`, returns the config unchanged. What the run in `folder` has
    recorded about its start is not read again. Raises ValueError for keys that do not
    apply to the start, and what reading the start raises.
    """
    if not config.get('init_from'):
        return config
    source = init_from.parse(config['init_from'])
    model = dict(config.get('model') or {})
    return config | init_from.inferred(source, model, config['phases'], folder)


def with_baseline(config, folder, mesh=None):
    """Returns the config of the baseline that `config['baseline']` names.

    With 'none', returns the config unchanged. Otherwise `baseline` becomes {'by': kind,
    'ratios': [relative cost of a step, by phase]}, so that config.json records what was
    matched; a config with such an entry is returned unchanged. `mesh` is that of the
    devices of this job, unless given. What follows from `init_from` is added first.
    Raises ValueError as in baseline.check.
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
        baseline.check(kind, recipe.phases)
        # The baseline itself lacks some of the modules that they may match.
        preflight.lr_multipliers(recipe, config['optimizer'])
        plain = recipe.make_phases(baseline.sections(recipe.phases), recipe.steps)
        ratios = baseline.flops_ratios(recipe, plain)
    sections = baseline.sections(recipe.phases, ratios)
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
    first = baseline.first_total(folder)
    if first is None:
        return config
    last = {k: v for k, v in config['phases'][-1].items() if k != 'share'}
    before = extend.lengthened(config['phases'], first)[:-1]
    return config | {'phases': [*before, last]}


def _stretched(config, steps, sections):
    """Returns the config with other phases; its schedule and steps stretch with them."""
    total = sum(section['steps'] for section in sections)
    schedule = baseline.stretched(config['schedule'], total / steps)
    tokens = {'tokens': 0} if 'tokens' in config else {}
    return config | tokens | dict(phases=sections, steps=total, schedule=schedule)


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
        entry['rise'] = extend.rise(config['schedule'], total - at)
        history = [*history, entry]
    if not history:
        return config
    phases = extend.lengthened(config['phases'], history[0]['steps'])
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
    before = extend.lengthened(saved['phases'], config['extended'][0]['steps'])
    if before[-1].get('at_switch') == config['phases'][-1].get('at_switch'):
        # A new warm-up that was a share is written out in steps, too.
        lengths.append(f'phases.{last}.at_switch.rewarm')
    if _steps(before) == _steps(config['phases']):
        # Phases with a `share` have their steps written out now; they are the same.
        numbers = range(last + 1)
        lengths += [f'phases.{n}.{key}' for n in numbers for key in ('share', 'steps')]
    return (*extend.MAY_CHANGE, *lengths)


def _steps(phases):
    """Returns the steps of all phases but the last."""
    return [phase.get('steps') for phase in phases[:-1]]


def _saved(folder):
    """Returns the config of a run that has a checkpoint; None without a checkpoint.

    Raises ValueError, naming the file, if it is damaged: a flipped bit in the number of
    steps must not be mistaken for an extension.
    """
    path = Path(folder, 'config.json')
    if not path.is_file() or not workdir.has_step(Path(folder, 'checkpoints')):
        return None
    saved = checksums.read_json(path)
    try:
        steps = recipes.size(saved)[1]
        earlier = [entry['steps'] for entry in saved.get('extended', [])]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f'{path} is damaged or was edited: {error}') from error
    newest = restore.newest_good(Path(folder, 'checkpoints'))
    recorded = newest[1].get('steps', steps) if newest else steps
    if recorded not in (steps, *earlier):
        raise ValueError(
            f'{path} is damaged or was edited: it describes {steps:,} steps, '
            f'but the newest checkpoint next to it belongs to a run of {recorded:,}. '
            'Restore the file from a copy.'
        )
    return saved
