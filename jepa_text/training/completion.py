"""Completes a config: derived settings are decided once, and written to config.json.

The matched baseline of a run is MLM alone, with the same FLOPs: each phase with a latent
term becomes its MLM part, with as many more steps as give the same FLOPs.
The schedule of the learning rate stretches with the run, and that of a masking rate with
its phase.
"""

from jepa_text.parallel import processes
from jepa_text.settings import resolve
from jepa_text.training import init_from, preflight
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


def with_baseline(config, mesh=None):
    """Returns the config of the baseline that `config['baseline']` names.

    With 'none', returns the config unchanged. Otherwise `baseline` becomes {'by': kind,
    'ratios': [relative cost of a step, by phase]}, so that config.json records what was
    matched; a config with such an entry is returned unchanged. `mesh` is that of the
    devices of this job, unless given. Raises ValueError for an unknown kind, and if no
    phase has a latent term.
    """
    kind = config['baseline']
    if kind == 'none' or (isinstance(kind, dict) and {*kind} == {'by', 'ratios'}):
        return config
    with processes.fail_together('the baseline'):
        # For the size of a stand-in, if there is no tokenizer yet, as in a plan.
        vocab_size = (config.get('plan') or {}).get('vocab_size')
        recipe = recipes.outline(config, mesh, vocab_size)
        resolve.check_choice('baseline', kind, ('none', 'flops'))
        if not any(map(_mlm_section, recipe.phases)):
            raise ValueError(
                f'baseline={kind!r}, but no phase has a latent term: '
                f'{", ".join(phase.name for phase in recipe.phases)}. Set baseline=none.'
            )
        # The baseline itself lacks some of the modules that they may match.
        preflight.parameter_paths(recipe)
        same = _without_latents(recipe.phases, [1] * len(recipe.phases))
        plain = config | dict(phases=same, steps=recipe.steps, tokens=0)
        plain = recipes.outline(plain, mesh, vocab_size)
        costs = [[r.cost(phase).model for phase in r.phases] for r in (recipe, plain)]
        ratios = [own / base for own, base in zip(*costs)]
    sections = _without_latents(recipe.phases, ratios)
    total = sum(section['steps'] for section in sections)
    return config | {
        'tokens': 0,
        'phases': sections,
        'steps': total,
        'schedule': stretched(config['schedule'], total / recipe.steps),
        'baseline': {'by': kind, 'ratios': ratios},
    }


def _mlm_section(phase):
    """Returns the objective's section without its latent term; None if it has none."""
    return phase.objective.baseline(phase.section['objective'])


def _without_latents(phases, ratios):
    """Returns sections without latent terms, and with phases stretched by the ratios."""
    made = []
    for phase, ratio in zip(phases, ratios):
        section = {
            key: value for key, value in phase.section.items() if key != 'fraction'
        }
        mlm = _mlm_section(phase)
        if mlm and isinstance(rate := mlm.get('rate'), dict):
            mlm = mlm | {'rate': stretched(rate, ratio)}
        steps = max(1, round(phase.steps * ratio))
        made.append(section | {'objective': mlm or section['objective'], 'steps': steps})
    return made


def stretched(section, factor):
    """Returns a section with its lengths in steps multiplied by a factor.

    Fractions of a run or a phase stay as they are, as does a number for a section.
    Lengths are rounded down, so that parts are not longer than the whole.
    """
    if not isinstance(section, dict):
        return section
    lengths = {
        key: max(1, int(value * factor + 1e-6))
        for key, value in section.items()
        if key.endswith('steps') and value
    }
    return section | lengths
