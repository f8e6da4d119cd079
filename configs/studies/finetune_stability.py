"""Stability of fine-tuning after CLM: Figure 5 of arXiv 2507.00994, in two precisions.

    jepa-text study studies/finetune_stability:scale=desk \\
        --workdir=runs/stability

Is an encoder that started with CLM less sensitive to the learning rate of fine-tuning?
The paper fine-tunes weights in bfloat16. At its lower learning rates most updates round
to zero, so its result may be due to rounding. Here each grid is trained in float32 and in
the paper's bfloat16. Its standard deviation over learning rates 1e-5 to 1e-4 and seeds is
compared over pretraining seeds.
"""

from typing import Literal

from jepa_text.settings.config_file import shared

STEPS = 42_000
PRECISIONS = ('float32', 'paper_bf16')


def get_config(*, scale: Literal['paper', 'desk', 'smoke'] = 'desk', seeds=0):
    """Returns the config of the study at a scale."""
    config, scale = shared('scales').begun('finetune_stability', scale, seeds)
    config.examine = {name: _exam(scale, name) for name in PRECISIONS}
    config.runs = (
        scale.run('mlm', STEPS),
        scale.run('clm25', STEPS, 10_000),
        scale.run('clm', STEPS, STEPS),
    )
    return config


def _exam(scale, precision):
    """Returns the fine-tuning grid of the paper, or a smaller one at the other scales."""
    exam = dict(finetuning=dict(precision=precision))
    if scale.name == 'paper':
        tasks = sum((one['tasks'] for one in shared('scales').examine().values()), ())
        exam['finetuning']['rows'] = 'paper'
        return exam | dict(tasks=tasks, select_by='paper')
    is_desk = scale.name == 'desk'
    steps, size, seeds = (100, 400, 2) if is_desk else (4, 32, 1)
    exam['finetuning'] |= dict(steps=steps, batch_size=16, microbatches=1)
    return exam | dict(
        tasks=(dict(name='bundled'),),
        learning_rates=(1e-5, 2e-5, 5e-5, 1e-4) if is_desk else (1e-5, 1e-4),
        seeds=seeds,
        train=size,
        test=size,
        controls=('words', 'untrained') if is_desk else ('words',),
    )
