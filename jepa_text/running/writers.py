"""Where metrics go beside metrics.jsonl: TensorBoard's event files, Weights & Biases.

Each has write(step, {name: number}) and close(). A program that is not installed is asked
for by name; metrics.jsonl is written in any case.
"""

import dataclasses
import json
import time
import uuid
from pathlib import Path

from jepa_text.config import schema
from jepa_text.files import atomic, checksums

RUN = 'wandb.json'
MODES = ('online', 'offline', 'disabled')


@dataclasses.dataclass(frozen=True, kw_only=True)
class WandbConfig:
    """The section `metrics.wandb`."""

    project: str = schema.field(doc='a project at Weights & Biases')
    entity: str | None = schema.field(None, 'whose it is; yours by default')
    name: str | None = schema.field(None, 'of the run; W&B makes one up')
    group: str | None = schema.field(None, 'of runs that belong together')
    mode: str = schema.field('online', 'offline: `wandb sync` tells later', choices=MODES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `metrics`."""

    wandb: WandbConfig | None = schema.field(None, 'where they are told beside the files')


class TensorBoard:
    """Event files in a workdir; what was told after `resume_step` is hidden."""

    def __init__(self, workdir, resume_step=None):
        try:
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
            # Names have one-second resolution: two runs in the same second would collide.
            filename_suffix=f'.{time.time_ns()}',
        )

    def write(self, step, values):
        """Tells of a step."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self):
        """Flushes and closes."""
        self._writer.close()


class Wandb:
    """A run at Weights & Biases: the same one whenever its workdir goes on.

    `settings`, a WandbConfig, are keywords of wandb.init. The id is in wandb.json.
    Steps that a resumed run takes again are told once: W&B leaves out what is old.
    """

    def __init__(self, workdir, settings):
        try:
            import wandb
        except ImportError as error:
            raise ImportError(
                f"metrics.wandb={settings!r} needs wandb: pip install 'jepa-text[wandb]'"
                ', or leave metrics.wandb out of the config.'
            ) from error
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
        """Tells of a step."""
        self._run.log(values, step=step)

    def close(self):
        """Waits until all is told."""
        self._run.finish()
