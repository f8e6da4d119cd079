"""Config -> config: what the user left open is decided, and stands in config.json.

plain       as JSON has it, whole
completed   with what it starts from decides: the model section, tied heads
matched     with the phases of its baseline
extended    with what the run in the workdir was before it got more steps
"""

from pathlib import Path

from jepa_text.files import checksums
from jepa_text.parallel import processes
from jepa_text.running import restore, workdir
from jepa_text.training import assemble, baseline, extend, init_from


def completed(config, folder=None):
    """The config with the model section and the `tied` of heads that its start decides.

    Without a start, the same. What the run in `folder` has found out is not asked again.
    Raises ValueError for keys that a start does not take, and whatever reading it raises.
    """
    if not config.get('init_from'):
        return config
    source = init_from.of(config['init_from'])
    model = dict(config.get('model') or {})
    return config | init_from.decided(source, model, config['phases'], folder)


def matched(config, folder):
    """The config of the baseline that `config['baseline']` asks for; for 'none', itself.

    In its place stands then {'by': kind, 'ratios': [of the cost of a step, by phase]}, so
    that the config of a run says what was matched: a config that has it stays as it is.
    Ratios of time are measured once: those in `folder`/config.json are taken again.
    Raises ValueError as baseline.check.
    """
    kind = config['baseline']
    if isinstance(kind, dict) or kind == 'none':
        return config
    # Times are measured by all processes at once: not within the block.
    with processes.together('the baseline'):
        # A stand-in where there is no tokenizer yet, as for a plan.
        size = (config.get('plan') or {}).get('vocab_size')
        made = assemble.outline(config, assemble.mesh(config), size)
        baseline.check(kind, made.phases)
        plain = made.make_phases(baseline.sections(made.phases), made.steps)
        saved = baseline.saved_ratios(folder)
        ratios = saved if kind == 'time' else baseline.flops_ratios(made, plain)
    ratios = baseline.time_ratios(made, plain) if ratios is None else ratios
    stretched = _as_long(config, made, baseline.sections(made.phases, ratios))
    return stretched | {'baseline': {'by': kind, 'ratios': ratios}}


def _as_long(config, made, sections):
    """The config with these phases, and all else stretched with them."""
    total = sum(section['steps'] for section in sections)
    schedule = baseline.stretched(config['schedule'], total / made.steps)
    tokens = {'tokens': 0} if 'tokens' in config else {}
    return config | tokens | dict(phases=sections, steps=total, schedule=schedule)


def extended(config, folder):
    """The config with what the run in the folder was before it got more steps.

    The same for a run that has no checkpoint, and one that gets no more steps than it
    had, which `workdir` refuses. Beyond the first length only the last phase grows:
    earlier ones keep the steps that they had.
    """
    saved = _saved(folder)
    if saved is None:
        return config
    past, before, total = (
        saved.get('extended', []),
        assemble.size(saved)[1],
        assemble.size(config)[1],
    )
    if total > before:
        at = restore.newest_good_step(Path(folder, 'checkpoints'))
        if at is None:
            return config
        was = {'at': at, 'steps': before, 'schedule': saved['schedule']}
        past = [*past, was | {'rise': extend.rise(config['schedule'], total - at)}]
    if not past:
        return config
    grown = extend.lengthened(config['phases'], past[0]['steps'])
    return config | {'extended': past, 'phases': grown}


def grows(config, folder):
    """Dotted keys that may differ from those of the run in the folder, as it grows."""
    saved = _saved(folder)
    if saved is None or len(config.get('extended', [])) <= len(saved.get('extended', [])):
        return ()
    return (*extend.MAY_CHANGE, f'phases.{len(config["phases"]) - 1}.steps')


def _saved(folder):
    """The config of a run that has a checkpoint; None without one.

    Raises ValueError, which names the file, where it is damaged: a length that flipped on
    the disk is no wish for more steps.
    """
    path = Path(folder, 'config.json')
    if not path.is_file() or not workdir.has_step(Path(folder, 'checkpoints')):
        return None
    saved = checksums.read_json(path)
    try:
        steps = assemble.size(saved)[1]
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
