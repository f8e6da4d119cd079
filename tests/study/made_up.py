"""A synthetic study with seeds, whose true means are known."""

import numpy as np
from config_of import shipped

from jepa_text.running import budget
from jepa_text.study import members, report

SPAN = 0.02  # half width of the interval of a probe
CONTROLS = {'largest class': {'balanced': 0.5}, 'TF-IDF': {'balanced': 0.53}}


def study(name='pfs', seeds=5, loss=None, sensitivity=None):
    """Returns a report.Study of a shipped study at its smallest scale.

    `loss(config)` is the mean over seeds. Noise is added per seed, and as much again per
    member.
    """
    config = shipped(name, 'smoke', seeds)
    made, prepare = members.configs(config, 'rows'), {'prepare': config['prepare']}
    configs = {member: one | prepare for member, one in made.items()}
    rng = np.random.default_rng(0)
    of_seed = rng.normal(size=(seeds, 2)) * 0.02
    models = {'untrained': values(7.6, 0.5)}
    examined = {'values': {}, 'beside': {}}
    for member, one in configs.items():
        noise = rng.normal(size=2) * 0.02 + of_seed[one['seed']]
        means = loss(one) if loss else 5.0, 0.6
        models[member] = values(*(np.array(means) + noise))
        if sensitivity:
            examined['values'][member] = sensitivity(one, rng)
    results = {
        'models': models,
        'recipes': {member: members.recipe_of(member) for member in configs},
        'probes': {'word_order': dict(controls=CONTROLS)},
        'no_probe': {},
        'unigram': 6.4,
        'examined': examined,
    }
    logs = {member: log(one, models[member]) for member, one in configs.items()}
    return report.Study(
        results=results, configs=configs, logs=logs, report=config['report']
    )


def values(loss, probe):
    """Returns the metrics of a member."""
    key = 'representation/word_order'
    return {
        'heldout/mlm_loss': float(loss),
        'heldout/clm_loss': float(loss) + 0.1,
        key: float(probe),
        f'{key}_low': float(probe) - SPAN,
        f'{key}_high': float(probe) + SPAN,
        f'{key}_bag': 0.51,
        'geometry/uniformity': -1.5 + float(probe),
        'geometry/effective_rank': 40.0 + float(loss),
    }


def log(config, reached):
    """Returns the log of a run; runs of one seed start equally and read the same rows."""
    rng = np.random.default_rng(config['seed'])
    total, loss = config['steps'], reached['heldout/mlm_loss']
    tokens = rng.integers(900, 1000, size=200)
    rows = [{'step': 0, 'heldout/clm_loss': 7.6 + config['seed'] / 7}]
    spans = budget.spans(config['phases'], total)
    for step in range(1, total + 1):
        index = next(i for i, (_, stop) in enumerate(spans) if step <= stop)
        name = config['phases'][index]['objective']['name']
        masked = tokens[step - 1] // (1 if name == 'clm' else 3)
        line = {'step': step, 'train/tokens': int(tokens[step - 1])}
        line |= {'train/masked_tokens': int(masked), 'throughput/step_time': 0.1}
        rows.append(line)
        if not step % max(1, total // 8):
            now = loss + (7.6 - loss) * np.exp(-5 * step / total)
            probe = reached['representation/word_order']
            now = {'heldout/mlm_loss': float(now), 'heldout/unigram_entropy': 6.4}
            rows.append({'step': step, **now, 'probe/bundled/balanced': probe})
    return rows
