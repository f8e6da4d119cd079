"""Is a lower loss worth anything downstream? Seven ways to train one encoder, fine-tuned.

    jepa-text study studies/downstream:scale=small --workdir=runs/downstream

MLM; a quarter of CLM first (arXiv 2507.00994); the same quarter in the middle of the run,
after the detour of arXiv 2605.12438; both objectives mixed by rows; JEPA + MLM, alone and
after a quarter of CLM (arXiv 2606.05173); and MLM with the FLOPs of JEPA + MLM. All take
the same steps, an eighth of those of configs/small.py, with its model, optimizer and
schedule, but a constant masking rate, so that members share what they can. Each is then
fine-tuned on three of the sets of configs/six_sets.py, at the one rate that is within a
hundredth of the best for `small` on all of them.

    scale=small    five seeds, on the texts of launch/small_corpus.py in `corpus`
    scale=smoke    two seeds of a tiny model on the bundled corpus and its task: minutes
"""

from typing import Literal

from jepa_text.settings import ranges
from jepa_text.settings.config_file import shared

SETS = ('trec', 'films', 'brown_pos')
COMPARED = (
    *((name, 'mlm') for name in ('clm_mlm', 'detour', 'mixture', 'jepa_mlm')),
    ('jepa_mlm', 'mlm_flops'),
    ('clm_jepa_mlm', 'clm_mlm'),
)


def runs():
    """Returns the runs, baselines first."""
    made = shared('presets').presets(tied=True, start=0.99)
    (mlm,), (clm, hybrid) = made['mlm'], made['clm_jepa_mlm']
    phases = {
        'mlm': (mlm,),
        'mlm_flops': (hybrid,),
        'clm_mlm': made['clm_mlm'],
        'detour': (mlm | dict(fraction=0.375), clm, mlm),
        'mixture': made['mixture'],
        'jepa_mlm': (hybrid,),
        'clm_jepa_mlm': made['clm_jepa_mlm'],
    }
    baselines = {'mlm_flops': dict(baseline='flops')}
    return tuple(
        dict(name=name, phases=own, **baselines.get(name, {}))
        for name, own in phases.items()
    )


def get_config(
    *, scale: Literal['small', 'smoke'] = 'smoke', corpus='runs/small-corpus', seeds=0
):
    """Returns the config of the study at a scale; `seeds` is their number."""
    ranges.number('seeds', seeds, minimum=0)
    is_small = scale == 'small'
    config = shared('small').get_config(sets=f'{corpus}/sets' if is_small else '')
    config.name, config.runs = f'downstream_{scale}', runs()
    config.report = dict(compare=COMPARED)
    config.seeds = tuple(range(seeds or (5 if is_small else 2)))
    del config.phases, config.data['folder']
    sets = shared('six_sets')
    exam = dict(tasks=(dict(name='bundled'),), train=64, test=64)
    steps, finetuning = 16, dict(steps=4)
    if is_small:
        steps, finetuning = config.steps // 8, sets.FINETUNING
        config.prepare.source = dict(name='jsonl', path=f'{corpus}/texts')
        exam = dict(tasks=sets.tasks(f'{corpus}/sets', SETS), train=9600, test=2000)
    else:
        config.prepare = shared('quickstart').get_config().prepare
        config.data.update(row_length=64, batch_size=4)
        config.model = dict(name='transformer', preset='tiny', scan=False)
    config.steps = steps
    exam |= dict(learning_rates=(1e-3,), seeds=1, finetuning=finetuning)
    config.examine = dict(finetuned=exam)
    return config
