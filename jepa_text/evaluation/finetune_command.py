"""The command `finetune`: trains, measures and saves one member.

The model can then be used:

    model = jt.load(workdir)
    model.predict(['a text'])
"""

import dataclasses

from jepa_text.data import truncation
from jepa_text.evaluation import examiner
from jepa_text.evaluation.config import Finetuning
from jepa_text.evaluation.controls import baselines
from jepa_text.evaluation.members import grid
from jepa_text.evaluation.results import result_files
from jepa_text.pretrained import exported, labels, load, saved
from jepa_text.running import compilation, places, xla_flags
from jepa_text.settings import schema
from jepa_text.settings.schema import field


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Config of `jepa-text finetune`."""

    model: str = field(
        doc="'small', a run, a folder of finetune or save, or 'hf:' and a name or folder"
    )
    task: dict = field(doc="e.g. dict(name='labeled', path='mine.jsonl')")
    learning_rate: float = field(1e-4, 'maximum of the schedule', above=0)
    seed: int = field(0, 'of the head, data order and dropout', minimum=0)
    finetuning: Finetuning = field({}, 'fine-tuning options')


def finetune(config, workdir):
    """Fine-tunes the model on the task, writes it to the workdir, returns its outcome.

    Raises ValueError as Examination does, and if the loss is not finite; FileExistsError
    if the workdir already contains a fine-tuned model.
    """
    xla_flags.apply()
    config = schema.read(Config, schema.plain(config))
    compilation.use_cache()
    with places.opened(workdir) as opened:
        return _finetune(config, opened)


def _finetune(config, workdir):
    saved.check_free(workdir.folder)
    task = examiner.task_of(config.task)
    if task.zero_shot:
        remedy = 'remove zero_shot from the task'
        if task.kind == 'cloze':
            remedy = 'cloze tasks are for `jepa-text evaluate` only'
        raise ValueError(f'{task.name} is answered without training: {remedy}.')
    model = load.load(config.model)
    saved.section_of(model.network.encoder)  # raises before it is trained
    model = dataclasses.replace(model, name=config.model)
    examination = examiner.examination_of(model, task, config.finetuning)
    if why := exported.obstacle(examination.kind, model):
        print(f'Note: `jepa-text export` will refuse the result: {why}')
    member = grid.Member(config.learning_rate, config.seed)
    names = baselines.names(task)
    reached = examiner.measured_controls(examination, names, examination.config)
    ((_, result),) = examination.run([member])
    outcome = result.outcome
    if outcome['status'] == 'not finite':
        raise ValueError(
            f'learning_rate={config.learning_rate}: the loss is not finite, so nothing '
            'was written. Use a lower learning rate.'
        )
    described = result_files.plain({**examination.config_of(member), **outcome})
    kind = examination.kind
    if task.kind in ('labels', 'scores') and task.train.second is None:
        # Only now, as the template is part of the keys of results.
        kind = dataclasses.replace(kind, template='{first}')
    model = dataclasses.replace(
        model,
        network=examination.grid.network,
        params=result.params,
        kind=kind,
        length=examination.max_length,  # of the rows that it was measured with
        causal=False,
    )
    if examination.kind.name == labels.Vectors.name:
        model = dataclasses.replace(model, pool=examination.kind.pool, normalize=True)
    saved.write(workdir.folder, model, described)
    for split in ('validation', 'test'):
        for definition, values in outcome[split].items():
            shown = ', '.join(f'{name} {value:.4f}' for name, value in values.items())
            print(f'{split:10}  {definition:8}  {shown}')
    shown = (
        f'{control["control"]} {reach["test"]["standard"][task.metric]:.4f}'
        for control, reach, *_ in reached
        if task.metric in reach['test']['standard']
    )
    print(f'{"test":10}  controls  {task.metric}: {", ".join(shown)}')
    if outcome['status'] == 'collapsed':
        print(
            'Warning: the model gives the same answer to all examples. Use more steps or '
            'another learning rate.'
        )
    if examination.cut[0]:
        print(truncation.message(task.name, examination.max_length, *examination.cut))
    method = 'encode' if examination.kind.name == labels.Vectors.name else 'predict'
    print(f'{workdir.name}: written; jt.load({workdir.name!r}).{method}([...])')
    return outcome
