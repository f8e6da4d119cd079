"""The matched baseline of a run: MLM alone, with the same FLOPs.

Each phase with a latent term becomes its MLM part, with as many more steps as give the
same FLOPs (cost/flops.py). The schedule of the learning rate stretches with the run, and
lengths in steps of a phase with the phase.
"""

from pathlib import Path

from jepa_text.config import resolve
from jepa_text.files import checksums
from jepa_text.running import workdir

KINDS = ('none', 'flops')


def mlm_section(phase):
    """Returns the objective's section without its latent term; None if it has none."""
    return phase.objective.baseline(phase.section['objective'])


def check(kind, phases):
    """Raises ValueError for an unknown kind, and if no phase has a latent term."""
    resolve.check_choice('baseline', kind, KINDS)
    if not any(map(mlm_section, phases)):
        raise ValueError(
            f'baseline={kind!r}, but no phase has a latent term: '
            f'{", ".join(phase.name for phase in phases)}. Set baseline=none.'
        )


def sections(phases, ratios=None):
    """Returns sections without latent terms, and with phases stretched by the ratios."""
    made = []
    for phase, ratio in zip(phases, ratios or [1] * len(phases)):
        section = {key: value for key, value in phase.section.items() if key != 'share'}
        mlm = mlm_section(phase)
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


def first_total(folder):
    """Returns the number of steps, before they were matched, with which the run in a
    folder began; None without such a run."""
    path = Path(folder, 'config.json')
    if not path.is_file() or not workdir.has_step(Path(folder, 'checkpoints')):
        return None
    saved = checksums.read_json(path)
    matched = saved.get('baseline')
    if not isinstance(matched, dict):
        return None
    history = saved.get('extended') or [saved]
    before = [phase['steps'] for phase in saved['phases'][:-1]]
    lengths = [*before, history[0]['steps'] - sum(before)]
    pairs = zip(lengths, matched['ratios'])
    return sum(round(steps / ratio) for steps, ratio in pairs)


def flops_ratios(recipe, plain):
    """Returns, for each phase, its FLOPs per step relative to its phase in `plain`.

    `plain` are the phases without latent terms; the ratio is 1 for equal phases.
    """
    costs = [
        [recipe.cost(phase).model for phase in phases]
        for phases in (recipe.phases, plain)
    ]
    return [own / base for own, base in zip(*costs)]
