"""Draws the results of README.md from its table and from the page of the study.

.venv/bin/python docs/picture.py      writes docs/figures/results.png
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODELS = ('untrained', 'MLM', 'a quarter CLM, then MLM', 'a quarter CLM, then JEPA + MLM')
COLORS = ('#9aa0a6', '#1f6f8b', '#d9822b', '#7b4fa3')


def rows(text):
    """Returns {first cell: [numbers in each other cell]} of all Markdown tables."""
    found = {}
    for line in re.findall(r'^\| (.+) \|$', text, re.MULTILINE):
        name, *cells = line.split(' | ')
        numbers = [list(map(float, re.findall(r'\d+\.\d+', cell))) for cell in cells]
        found.setdefault(name.strip(), []).append(numbers)
    return found


def draw(text):
    """Draws the losses of all seeds, and the probes with their intervals and controls."""
    import matplotlib

    matplotlib.use('Agg')
    from matplotlib import pyplot

    known = rows(text)
    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(10, 3.2), width_ratios=(1, 1.3)
    )
    for place, (model, color) in enumerate(zip(MODELS, COLORS)):
        values = known[model][0][0]
        left.plot(values, [-place] * len(values), 'o', color=color, alpha=0.8)
    entropy = known['unigram entropy of the held-out text'][0][0][0]
    left.axvline(entropy, color='black', lw=1, ls=':')
    left.text(entropy - 0.06, 0.62, 'token frequencies alone', ha='right', fontsize=8)
    left.set_yticks([-place for place in range(len(MODELS))], MODELS)
    left.set_xlabel('masked loss, nats per token (five seeds)')
    tasks = ('words\nshuffled?', 'neighbors\nswapped?', 'a word\nreplaced?')
    for place, (model, color) in enumerate(zip(MODELS, COLORS)):
        probes, shift = known[model][1], (place - 1.5) / 9
        for task, (value, *reach, bag) in enumerate(probes):
            right.errorbar(task + shift, value, reach or None, fmt='o', color=color)
            right.plot(task + shift, bag, '_', color=color, ms=9)
    for task, (value,) in enumerate(known['TF-IDF'][0]):
        right.plot(task + 0.3, value, 'x', color='black')
    right.axhline(0.5, color='black', lw=1, ls=':')
    right.set_xticks(range(3), tasks)
    right.set_ylabel('balanced accuracy')
    right.plot([], [], 'o', color='gray', label='the encoder')
    right.plot([], [], '_', color='gray', ms=9, label='the bag of its embeddings')
    right.plot([], [], 'x', color='black', label='TF-IDF')
    right.legend(fontsize=7, frameon=False)
    for axes in (left, right):
        axes.spines[['top', 'right']].set_visible(False)
    left.set_ylim(-3.5, 1.0)
    figure.tight_layout()
    return figure


if __name__ == '__main__':
    pages = ('README.md', 'docs/studies/quickstart.md')
    text = '\n'.join((ROOT / page).read_text(encoding='utf-8') for page in pages)
    draw(text).savefig(ROOT / 'docs' / 'figures' / 'results.png', dpi=130)
