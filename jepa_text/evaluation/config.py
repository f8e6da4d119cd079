"""Config of `jepa-text evaluate`: models, tasks, the grid, and fine-tuning options."""

import dataclasses

import numpy as np

from jepa_text.engine import Options
from jepa_text.models import pooling
from jepa_text.optim import adam
from jepa_text.pretrained import base
from jepa_text.settings.schema import field

PRECISIONS = ('float32', 'bfloat16', 'paper_bf16')
# What identifies the training of a member in its result line.
RECIPE = (
    *('steps', 'batch_size', 'warmup_fraction', 'head_rate', 'microbatches'),
    'unit_norm',
    *('precision', 'b1', 'b2', 'eps', 'weight_decay', 'clip_norm'),
)
# The grid of arXiv 2507.00994, section 3: 6 learning rates x 5 seeds.
LEARNING_RATES = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finetuning:
    """Fine-tuning options; the defaults are those of arXiv 2507.00994, but in float32."""

    steps: int = field(1000, 'maximum number of steps', minimum=1)
    epochs: int = field(1, 'maximum number of epochs', minimum=1)
    batch_size: int = field(32, 'examples per step', minimum=1)
    microbatches: int = field(
        1, 'parts that a batch is computed in; the gradient is exact', minimum=1
    )
    max_length: int = field(0, "tokens per row; 0: the model's maximum", minimum=0)
    warmup_fraction: float = field(
        0.1, 'fraction of the steps with a rising rate', minimum=0, below=1
    )
    head_rate: float = field(
        1.0, 'learning rate of the head, as a multiple of that of the encoder', above=0
    )
    unit_norm: bool = field(
        False, 'scale the last norm of the encoder to a root mean square of 1 first'
    )
    weight_decay: float = field(0.1, 'for kernels and embeddings', minimum=0)
    b1: float = field(0.9, "decay of Adam's first moment", minimum=0, below=1)
    b2: float = field(0.95, "decay of Adam's second moment", minimum=0, below=1)
    eps: float = field(1e-5, 'added to the root of the second moment', above=0)
    clip_norm: float = field(1.0, 'maximum norm of the gradient', above=0)
    pool: str = field(
        'auto',
        "pooling of the hidden states, for labels, scores and retrieval; 'auto': of the "
        "class of the model's family in transformers, for retrieval that of the model",
        choices=('auto', *pooling.POOLINGS),
    )
    act: str = field(
        'auto',
        "activation of the layer before the classes of texts; 'gelu_norm': also for "
        "tags and spans, as in ModernBERT; '': no such layer; 'unbiased': nor a bias; "
        "'auto': as pool",
        choices=('auto', *base.ACTS),
    )
    dropout: float = field(0.0, "of the head's input", minimum=0, below=1)
    rows: str = field(
        'standard',
        'tags on the first token of a word, spans by start and end in sliding windows; '
        "'paper': on every token, one row per example",
        choices=('standard', 'paper'),
    )
    precision: str = field(
        'float32',
        "of products; 'paper_bf16': also of parameters, moments and updates, which loses "
        'small updates',
        choices=PRECISIONS,
    )

    def __post_init__(self):
        if self.batch_size % self.microbatches:
            raise ValueError(
                f'finetuning.batch_size={self.batch_size} must be a multiple of '
                f'microbatches={self.microbatches}.'
            )

    def optimizer(self):
        """Returns AdamW without a learning rate (optim/adam.py)."""
        options = dict(b1=self.b1, b2=self.b2, eps=self.eps)
        dtype = 'bfloat16' if self.precision == 'paper_bf16' else 'float32'
        return adam.adamw(**options, weight_decay=self.weight_decay, momentum_dtype=dtype)

    def factors(self):
        """Returns factor_T, float32: the schedule as factors of the learning rate, a
        linear warmup from 0, the factor of the first step, and linear decay to 0."""
        warm = round(self.warmup_fraction * self.steps)
        step_T = np.arange(self.steps, dtype=np.float64)
        rise_T = step_T / max(1, warm)
        fall_T = (self.steps - step_T) / max(1, self.steps - warm)
        return np.where(step_T < warm, rise_T, fall_T).astype(np.float32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Config of `jepa-text evaluate`."""

    models: tuple[str, ...] = field(
        doc="'small', runs, folders of finetune or save, or 'hf:' and a name or folder"
    )
    tasks: tuple[dict, ...] = field(
        doc="tasks of jepa_text/evaluation/tasks, e.g. dict(name='sst2', path='...')"
    )
    learning_rates: tuple[float, ...] = field(LEARNING_RATES, 'of the grid', above=0)
    seeds: int = field(
        5, 'number of seeds of the grid, from 0; a verdict needs at least 5', minimum=1
    )
    search_seeds: int = field(
        0,
        'of these, the number that choose the rate; the rest train at it; 0: all',
        minimum=0,
    )
    finetuning: Finetuning = field({}, 'fine-tuning of each member')
    controls: tuple[str, ...] = field(
        ('words',),
        "baselines: 'words' without a model, 'untrained' with random initialization",
        choices=('words', 'untrained'),
    )
    select_by: str = field(
        'standard', 'definition of the selection metric', choices=('standard', 'paper')
    )
    train: int = field(0, 'training examples, drawn by a seed; 0: all', minimum=0)
    test: int = field(0, 'test examples, drawn by a seed; 0: all', minimum=0)
    width: int = field(
        0,
        'members that are trained at once, if they fit into memory; 0: 1 on CPUs, else '
        'one seed of each learning rate per device',
        minimum=0,
    )
    engine: Options = field({}, 'where members are trained')

    def __post_init__(self):
        check_given('evaluate', models=self.models, tasks=self.tasks)
        rates = self.learning_rates
        if not rates or len(set(rates)) < len(rates):
            raise ValueError(
                f'learning_rates={rates} must not be empty or have duplicates.'
            )


def check_given(command, **given):
    """Raises ValueError for a command without `models` or without `tasks`."""
    flags = {'models': '--model=runs/a,hf:NAME', 'tasks': '--task=mine.jsonl'}
    if missing := [key for key, sections in given.items() if not sections]:
        remedy = ' '.join(flags[key] for key in missing)
        raise ValueError(f'{command} needs {" and ".join(missing)}, as {remedy}.')
