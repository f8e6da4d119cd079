"""`finetune(config, workdir)`: one member is trained, measured, and kept.

model = load.load(workdir)
model.predict(['a text'])
"""

import dataclasses
import json

from jepa_text import load
from jepa_text.config import schema
from jepa_text.config.schema import field, section
from jepa_text.data import truncation
from jepa_text.evaluation import examiner, zero_shot
from jepa_text.evaluation.config import Finetuning
from jepa_text.evaluation.members import grid
from jepa_text.evaluation.results import lines as results
from jepa_text.evaluation.results import selection
from jepa_text.files import copies
from jepa_text.kinds import saved, vectors
from jepa_text.running import compilation, mirror, xla_flags


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The config of `jepa-text finetune`."""

    model: str = field(doc="a workdir of a run, or 'hf:' with a name or folder")
    task: dict = field(doc="as dict(name='labeled', path='mine.jsonl')")
    learning_rate: float = field(1e-4, 'the highest of the schedule', above=0)
    seed: int = field(0, 'of head, order of the data and dropout', minimum=0)
    chosen_from: str = field(
        '', "workdir of `evaluate`, whose choice of a learning rate is taken; '': none"
    )
    finetuning: Finetuning = section(Finetuning, 'how it is trained')
    compilation_cache: str = compilation.choice()


def finetune(config, workdir):
    """Trains the model on the task, writes it to the workdir, and returns its outcome.

    Raises ValueError as Examination does, and for a member that is not finite; and
    FileExistsError for a workdir that holds a fine-tuned model.
    """
    xla_flags.mend()
    config = schema.read(Config, schema.plain(config))
    compilation.use_cache(config.compilation_cache)
    with mirror.opened(workdir) as place:
        return _finetune(config, place)


def _finetune(config, place):
    saved.check_free(place.folder)
    task = examiner.task_of(config.task)
    if zero_shot.as_it_is(task):
        raise ValueError(
            f'{task.name} is answered without training: leave zero_shot out of the task.'
        )
    model = load.load(config.model)
    model = dataclasses.replace(model, name=config.model)
    examination = examiner.examination_of(model, task, config.finetuning)
    rate = config.learning_rate
    if config.chosen_from:
        rate = chosen_rate(config.chosen_from, config.model, task.name)
        print(f'learning rate {rate:g}, as {config.chosen_from} chose by validation')
    member = grid.Member(rate, config.seed)
    ((_, made),) = examination.run([member], tell=_teller(examination.recipe.steps))
    if made.outcome['status'] == 'not finite':
        raise ValueError(
            f'learning_rate={rate}: the loss was not finite. Take a '
            'lower one; nothing was written.'
        )
    described = results.plain({**examination.config_of(member), **made.outcome})
    network, params = examination.grid.network, made.params
    # In rows as long as those that it was measured with.
    made_of = dict(network=network, params=params, length=examination.max_length)
    model = dataclasses.replace(model, **made_of, causal=False)
    if examination.kind.name == vectors.Vectors.name:
        model = dataclasses.replace(model, pool=examination.kind.pool, normalize=True)
    saved.write(place.folder, model, examination.kind, described)
    place.begin()
    for split in ('validation', 'test'):
        for definition, values in made.outcome[split].items():
            said = ', '.join(f'{name} {value:.4f}' for name, value in values.items())
            print(f'{split:10}  {definition:8}  {said}')
    if made.outcome['status'] == 'collapsed':
        print('Warning: it gives one answer to all. Take more steps or another rate.')
    if examination.cut[0]:
        print(truncation.told(task.name, examination.max_length, *examination.cut))
    asks = 'encode' if examination.kind.name == vectors.Vectors.name else 'predict'
    print(f'{place.name}: written; load.load({place.name!r}).{asks}([...])')
    return made.outcome


def chosen_rate(workdir, model, task):
    """The learning rate that an evaluation chose for a model on a task, for all seeds.

    Raises FileNotFoundError where it has not ended, ValueError where it has no members of
    both.
    """
    # Of its own settings: beside them the folder may hold members of others.
    path = copies.file('chosen_from', workdir, 'lines.jsonl')
    if path.name != 'lines.jsonl' or not path.is_file():
        raise FileNotFoundError(
            f'chosen_from={workdir!r} holds no lines.jsonl: give the --workdir of '
            '`jepa-text evaluate`, when that has ended.'
        )
    lines = list(map(json.loads, path.read_text().splitlines()))
    lines = [line for line in lines if not line.get('control')]
    own = [line for line in lines if (line['model'], line['task']) == (model, task)]
    if not own:
        known = sorted({f'{line["model"]} on {line["task"]}' for line in lines})
        raise ValueError(
            f'chosen_from={workdir!r} has no members of {model} on {task}, but of '
            f'{", ".join(known) or "none"}.'
        )
    (chosen,) = selection.select(own)
    if not chosen.members:
        raise ValueError(f'{workdir}: no member of {model} on {task} was finite.')
    return chosen.members[0]['learning_rate']


def _teller(steps):
    """Says how far the training is, ten times in all."""

    def tell(step):
        if step % max(1, steps // 10) == 0 or step == steps:
            print(f'step {step:,} of {steps:,}', flush=True)

    return tell
