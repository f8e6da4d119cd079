"""Metrics writers besides metrics.jsonl: TensorBoard event files, Weights & Biases.

Each has write(step, {name: number}) and close(). The errors for missing packages name the
package to install; metrics.jsonl is always written.
"""

import contextlib
import dataclasses
import json
import sys
import time
import uuid
from pathlib import Path

from jepa_text.config import schema
from jepa_text.files import atomic, checksums, extras

RUN = 'wandb.json'
MODES = ('online', 'offline', 'disabled')


@dataclasses.dataclass(frozen=True, kw_only=True)
class WandbConfig:
    """The section `metrics.wandb`."""

    project: str = schema.field(doc='project at Weights & Biases')
    entity: str | None = schema.field(None, 'user or team; default: your own')
    name: str | None = schema.field(None, 'run name; default: chosen by W&B')
    group: str | None = schema.field(None, 'group of related runs')
    mode: str = schema.field('online', 'offline: upload with `wandb sync`', choices=MODES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `metrics`."""

    wandb: WandbConfig | None = schema.field(None, 'also log to Weights & Biases')


class TensorBoard:
    """Event files in a workdir; events after `resume_step` are hidden."""

    def __init__(self, workdir, resume_step=None):
        try:
            # It imports torch, which takes seconds, if it is installed.
            with _hidden('torch'):
                from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ImportError(
                'TensorBoard files need tensorboardX: pip install tensorboardX, or open '
                'the Writer with tensorboard=False.'
            ) from error
        self._writer = SummaryWriter(
            str(workdir),
            purge_step=None if resume_step is None else resume_step + 1,
            max_queue=1000,
            flush_secs=10,
            # File names have one-second resolution: two runs in a second would collide.
            filename_suffix=f'.{time.time_ns()}',
        )

    def write(self, step, values):
        """Writes the metrics of a step."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self):
        """Flushes and closes."""
        self._writer.close()


class Wandb:
    """A run at Weights & Biases, continued whenever its workdir is resumed.

    `settings`, a WandbConfig, are arguments of wandb.init. The run id is stored in
    wandb.json. Steps repeated by a resumed run are logged once: W&B ignores older steps.
    """

    def __init__(self, workdir, settings):
        what, otherwise = f'metrics.wandb={settings!r}', ', or leave it out of the config'
        wandb = extras.package('wandb', 'wandb', what, otherwise)
        known, saved = Path(workdir, RUN), Path(workdir, 'config.json')
        if not known.is_file():
            atomic.write(known, json.dumps({'id': uuid.uuid4().hex[:8]}))
        self._run = wandb.init(
            dir=str(workdir),
            id=checksums.read_json(known)['id'],
            resume='allow',
            config=checksums.read_json(saved) if saved.is_file() else None,
            **schema.as_dict(settings),
        )

    def write(self, step, values):
        """Logs the metrics of a step."""
        self._run.log(values, step=step)

    def close(self):
        """Waits until everything is uploaded."""
        self._run.finish()


@contextlib.contextmanager
def _hidden(module):
    """Within it, importing a module that is not imported yet raises ImportError."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None
    try:
        yield
    finally:
        del sys.modules[module]
