"""Differences between fine-tuned models and their controls, with Holm's correction.

    python benchmarks/against_controls.py runs/six

reads the folder of `jepa-text evaluate`, and prints for each model and task the test
score and its difference

    from the network at random weights     paired over seeds, Student's t
    from the strongest control without     over test examples, the model's averaged over
    pretraining                            its seeds: paired bootstrap; if that control is
                                           the network at random weights, over seeds.
                                           Examples count as independent: the folder does
                                           not have their texts
    from the last model                    over seeds

with 95 % intervals, and p after Holm's correction over the tasks.
"""

import json
import sys
from pathlib import Path

import numpy as np

from jepa_text.evaluation.results import result_files, selection
from jepa_text.measures import statistics

RESAMPLES = 10_000
UNTRAINED = 'untrained'


def read(folder):
    """Returns {task: [Chosen]} of models and controls at their selected rates."""
    folder, by_task = Path(folder), {}
    # Of one grid, without the lines of other settings that the folder may have.
    if (file := folder / 'lines.jsonl').is_file():
        lines = [json.loads(x) for x in file.open(encoding='utf-8')]
    else:
        lines, _ = result_files.read(folder / result_files.FOLDER)
    for one in selection.select(result_files.with_short_names(lines)):
        if one.members:
            by_task.setdefault(one.task, []).append(one)
    return by_task


def examples(folder, choice):
    """Returns the metric of each test example, [N], averaged over seeds."""
    lines = choice.members
    sides = (result_files.read_side(Path(folder) / 'results', line) for line in lines)
    return np.mean([side[choice.metric] for side, _ in sides], axis=0)


def bootstrap(first_N, second_N):
    """Returns (mean difference, low, high, p) over resampled examples."""
    difference_N, rng = first_N - second_N, np.random.default_rng(0)
    means_R = np.array(
        [rng.choice(difference_N, len(first_N)).mean() for _ in range(RESAMPLES)]
    )
    tail = min((means_R <= 0).mean(), (means_R >= 0).mean())
    low, high = np.quantile(means_R, [0.025, 0.975])
    # Never 0: the data themselves are one of the samples.
    return difference_N.mean(), low, high, min(1.0, 2 * tail + 1 / RESAMPLES)


def difference(folder, model, other):
    """Returns (difference, low, high, p) of two Chosen of a task."""
    if other.first.get('control') not in (None, UNTRAINED):
        return bootstrap(examples(folder, model), examples(folder, other))
    result = statistics.over_seeds(*statistics.paired(model.values(), other.values()))
    return result.difference, result.low, result.high, result.p


def beside(chosen, model, models):
    """Returns {kind of comparison: Chosen} of a model on a task."""
    # Not the bag of embeddings, which has what pretraining gave.
    names = {f'{model}, {UNTRAINED}', *(c.first.get('control') for c in chosen)}
    own = [c for c in chosen if c.first.get('control') and c.model in names]
    kinds = {
        'random weights': [c for c in own if c.first['control'] == UNTRAINED],
        'strongest control': sorted(own, key=lambda c: -c.interval().value)[:1],
        'last model': [c for c in chosen if c.model == models[-1] != model],
    }
    return {kind: found[0] for kind, found in kinds.items() if found}


def main(folder):
    """Prints a table in Markdown for each kind of comparison."""
    by_task = read(folder)
    everything = [one for chosen in by_task.values() for one in chosen]
    models = list(
        dict.fromkeys(c.model for c in everything if not c.first.get('control'))
    )
    rows = {}
    for task, chosen in by_task.items():
        for one in chosen:
            if one.model in models:
                for kind, other in beside(chosen, one.model, models).items():
                    found = difference(folder, one, other)
                    rows.setdefault((one.model, kind), []).append(
                        (task, one, other, found)
                    )
    for (model, kind), compared in rows.items():
        adjusted = statistics.holm([found[-1] for *_, found in compared])
        print(f'\n{model}, and {kind}\n')
        print('| task | score | beside | its score | difference | 95 % | p, Holm |')
        print('|---|---|---|---|---|---|---|')
        for (task, one, other, (mean, low, high, _)), p in zip(compared, adjusted):
            scores = one.interval().value, other.interval().value
            print(
                f'| {task} | {scores[0]:.3f} | {other.model} | {scores[1]:.3f} '
                f'| {mean:+.3f} | {low:+.3f} to {high:+.3f} | {p:.2g} |'
            )


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
