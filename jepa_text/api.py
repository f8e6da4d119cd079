"""What `import jepa_text as jt` offers besides `jt.load`: training from a program.

config    the config of a shipped name or a file, with keys set
train     trains a run in a workdir, or resumes it
steps     the state, the compiled step and the batches, for a loop of one's own
"""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from jepa_text import main
from jepa_text.settings import config_file, schema


def config(name, **keys):
    """Returns the ConfigDict of a config with keys set, as the command line sets them.

    name     a shipped config or a file, with its argument: 'toy:clm_mlm', 'my.py'
    keys     config keys and short flags; a dict is merged into a section, and
             **{'optimizer.weight_decay': 0.05} sets one key of it

    Raises ValueError for an unknown name or key, and for an invalid value.

    >>> config('toy:clm_mlm', steps=200).steps
    200
    """
    from ml_collections import ConfigDict

    file = config_file.read(name)
    command = _command_of(name, file)
    root, flags = main.root_of(command, file), main.COMMANDS[command].keys
    settings = [(flags.get(key, key), value) for key, value in keys.items()]
    made = config_file.with_settings(root, file, settings)
    schema.read(root, made)
    return ConfigDict(made)


def _command_of(name, file):
    """Returns the command that a config is for: by its name, or by its keys."""
    stem = Path(name.partition(':')[0]).stem
    if stem in main.COMMANDS:
        return stem
    return 'study' if 'runs' in file else 'train'


@dataclasses.dataclass(frozen=True)
class Run:
    """A trained run: its workdir, and its final TrainState (training/state.py)."""

    workdir: str
    state: Any

    def model(self):
        """Returns the model of the newest checkpoint, as `load` does."""
        from jepa_text.pretrained.load import load

        return load(self.workdir)

    @property
    def metrics(self):
        """The logged metrics, a row per step and a column per name, NaN where a step has
        none: a pandas DataFrame, or {name: array} if pandas is not installed."""
        from jepa_text.running import metrics

        merged = {}
        for row in metrics.read(self.workdir):
            merged.setdefault(row['step'], {}).update(row)
        return _table([*merged.values()])


def train(config, workdir):
    """Trains the run of a config in a workdir, or resumes it; returns the Run.

    `config` is a ConfigDict or a dict. Raises what training/train.py raises.
    """
    from jepa_text.evaluation import train_command

    return Run(str(workdir), train_command.trained(config, workdir))


def _table(rows):
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}
    try:
        import pandas
    except ModuleNotFoundError:
        return columns
    return pandas.DataFrame(columns)
