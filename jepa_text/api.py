"""The commands as functions of `import jepa_text as jt`.

config               the config of a shipped name or a file, with keys set
train                trains a run in a workdir, or resumes it
evaluate, analyze    a table of models beside their controls
"""

import atexit
import contextlib
import dataclasses
import os
import re
import shutil
import tempfile
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ml_collections import ConfigDict

from jepa_text import commands
from jepa_text.files import addresses, checksums
from jepa_text.settings import config_file, ranges, schema

if TYPE_CHECKING:
    from jepa_text.pretrained.load import Pretrained


def config(name: str | os.PathLike, /, **keys: Any) -> ConfigDict:
    """Returns the ConfigDict of a config with keys set, as the command line sets them.

    name     a shipped config or a file, with arguments: 'toy:clm_mlm', 'my.py'; a Path
    keys     config keys; a dict is merged into a section, and
             **{'optimizer.weight_decay': 0.05} sets one key of it

    Raises ValueError for an unknown name or key, and for an invalid value; schedules and
    the parts of an objective are checked when they are used.

    >>> config('toy:clm_mlm', steps=200).steps
    200
    """
    name = os.fspath(name)
    file = config_file.read(name)
    command = commands.command_of(name, file)
    root, flags = commands.root_of(command, file), commands.COMMANDS[command].keys
    # The section `engine` has the name of a flag.
    settings = [
        (key if ranges.is_section(value) else flags.get(key, key), value)
        for key, value in keys.items()
    ]
    made = config_file.with_settings(root, file, settings)
    schema.read(root, made)
    return ConfigDict(made)


@dataclasses.dataclass(frozen=True)
class Run:
    """A trained run: its workdir, and its final TrainState (training/state.py)."""

    workdir: str
    state: Any = dataclasses.field(repr=False)

    def model(self) -> 'Pretrained':
        """Returns the model of the newest checkpoint, as `load` does."""
        from jepa_text.pretrained.load import load

        return load(self.workdir)

    @property
    def metrics(self) -> Any:
        """The logged metrics, a row per step and a column per name, NaN where a step has
        none: a pandas DataFrame, or {name: array} if pandas is not installed."""
        from jepa_text.running import metrics, places

        merged: dict[int, dict] = {}
        for row in metrics.read(places.model_folder('The workdir', self.workdir)):
            merged.setdefault(row['step'], {}).update(row)
        return _table([*merged.values()])


def train(config: ConfigDict | dict, workdir: str | os.PathLike) -> Run:
    """Trains the run of a config in a workdir, or resumes it.

    Raises what training/train.py raises.
    """
    from jepa_text.evaluation import train_command
    from jepa_text.parallel import exits

    try:
        state = train_command.trained(config, workdir)
        return Run(addresses.location('The workdir', workdir), state)
    except exits.Stopped as stopped:
        # A notebook keeps the traceback, and its frames the state: with that of the run
        # that continues, there would be two.
        traceback.clear_frames(stopped.__traceback__)
        raise


def evaluate(
    models: 'str | Run | Pretrained | Iterable[str | Run | Pretrained]',
    tasks: str | dict | Iterable[str | dict],
    workdir: str | os.PathLike | None = None,
    **keys: Any,
) -> Any:
    """Fine-tunes models on tasks and returns their test scores: a table with a row for
    each model, task and metric.

    models     a loaded model, a Run, the name of one as `load` takes it, or several
    tasks      a file of texts and labels, NAME, NAME@PATH, or a section of the config, as
               dict(name='labeled', path='x.csv', label='stars'), or several
    workdir    keeps the results, so that the same call continues; None: a temporary one,
               which is deleted when Python ends
    keys       keys of the config, as in `config`: seeds=3, steps=200

    Columns: `low` and `high` are 95 % intervals over `seeds` at the `learning_rate` that
    validation chose, NaN for one seed; `control` is the strongest baseline of the task by
    this metric, of value `control_value`. Raises what evaluation/evaluate.py raises.
    """
    from jepa_text.evaluation import evaluate
    from jepa_text.evaluation.results import summary

    with _examined('evaluate', models, tasks, workdir, keys) as (made, folder):
        chosen = evaluate.evaluate(made, folder)['chosen']
    return _table(summary.beside_controls(summary.rows(chosen)))


def analyze(
    models: 'str | Run | Pretrained | Iterable[str | Run | Pretrained]',
    tasks: str | dict | Iterable[str | dict] = 'bundled',
    workdir: str | os.PathLike | None = None,
    **keys: Any,
) -> Any:
    """Analyzes what the vectors of models hold, and returns a table with a row for each
    model, task and value that has a control.

    Arguments are those of `evaluate`. Columns: `low` and `high` are 95 % intervals;
    `control` is the strongest one, of value `reached`; `kind` is what follows
    (analysis/verdicts.py). The page with all layers and figures is in the workdir. Raises
    what analysis/analyze.py raises.
    """
    from jepa_text.analysis import analyze

    with _examined('analyze', models, tasks, workdir, keys) as (made, folder):
        return _table(analyze.analyze(made, folder)['examined'])


@contextlib.contextmanager
def _examined(command, models, tasks, workdir, keys):
    """Yields (config, workdir) of a command that examines models on tasks.

    A loaded model is saved for it: members of an examination read theirs from files.
    """
    from jepa_text.evaluation.tasks import section_of

    if hasattr(tasks, 'columns') or not isinstance(tasks, Iterable | os.PathLike):
        raise ValueError(
            f'tasks is a {type(tasks).__name__}, but must be the name of a file, a '
            "section of the config, or several: write a table with to_csv('mine.csv'), "
            "and give 'mine.csv'."
        )
    tasks = [tasks] if isinstance(tasks, str | os.PathLike | Mapping) else tasks
    sections = [x if isinstance(x, Mapping) else section_of(str(x)) for x in tasks]
    is_one = isinstance(models, str | os.PathLike | Run) or hasattr(models, 'save')
    with tempfile.TemporaryDirectory() as folder:
        names = [_named(model, folder) for model in ([models] if is_one else models)]
        given = dict(models=names, tasks=sections)
        yield config(command, **given, **keys), workdir or _scratch(command)


def _scratch(command):
    """A folder for a report that can be opened until Python ends."""
    folder = tempfile.mkdtemp(prefix=f'jepa_text-{command}-')
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _named(model, folder):
    """The name of a model; of a loaded one, that of what it is saved to in a folder."""
    if not hasattr(model, 'save'):
        return str(getattr(model, 'workdir', model))
    name = re.sub(r'\W+', '-', Path(model.name.removeprefix('hf:')).name) or 'model'
    place = checksums.free_name(Path(folder, name))
    model.save(place)
    return str(place)


def _table(rows):
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}
    try:
        import pandas
    except ModuleNotFoundError:
        return columns
    return pandas.DataFrame(columns)
