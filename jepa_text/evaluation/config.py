"""The config of an examination: models, tasks, and how each member is fine-tuned."""

import dataclasses

from jepa_text.config import ranges
from jepa_text.config.schema import field, section
from jepa_text.cost import hardware
from jepa_text.evaluation.members import grid
from jepa_text.kinds import base
from jepa_text.models import pooling
from jepa_text.running import compilation

# Of arXiv 2507.00994, section 3: 6 learning rates x 5 seeds.
LEARNING_RATES = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finetuning:
    """How a model is fine-tuned; the defaults are those of the paper, but float32."""

    steps: int = field(1000, 'at most', minimum=1)
    epochs: int = field(1, 'at most', minimum=1)
    batch_size: int = field(32, 'examples of a step', minimum=1)
    microbatches: int = field(
        1, 'that a batch is computed in, exactly, of any kind', minimum=1
    )
    max_length: int = field(0, "tokens of a row; 0: the model's", minimum=0)
    warmup: float = field(0.1, 'share of the steps', minimum=0, below=1)
    weight_decay: float = field(0.1, 'of kernels and embeddings', minimum=0)
    b1: float = field(0.9, "of Adam's first moment", minimum=0, below=1)
    b2: float = field(0.95, 'of the second', minimum=0, below=1)
    eps: float = field(1e-5, 'beside the root of the second', above=0)
    clip_norm: float = field(1.0, 'of the gradient', above=0)
    layers: int | None = field(
        None, 'of the encoder, the last ones, are trained; 0: the head alone', minimum=0
    )
    pool: str = field(
        'mean',
        'of the hidden states, for labels and scores',
        choices=tuple(pooling.POOLINGS),
    )
    act: str = field(
        'gelu',
        "of the layer before the classes of texts; 'gelu_norm': and of tags and spans, "
        'as ModernBERT has it',
        choices=base.ACTS,
    )
    dropout: float = field(0.0, 'of what the head reads', minimum=0, below=1)
    rows: str = field(
        'standard',
        'tags on the first token of a word, spans by their ends in rows that slide; '
        "'paper': on every token, one row each",
        choices=('standard', 'paper'),
    )
    precision: str = field(
        'float32',
        'of products; paper_bf16: of parameters and updates, too',
        choices=grid.PRECISIONS,
    )

    def __post_init__(self):
        if self.batch_size % self.microbatches:
            raise ValueError(
                f'finetuning.batch_size={self.batch_size} is not a multiple of '
                f'microbatches={self.microbatches}; change one of them.'
            )

    def recipe(self, steps):
        """The grid.Recipe of so many steps."""
        names = {one.name for one in dataclasses.fields(grid.Recipe)}
        given = {k: v for k, v in dataclasses.asdict(self).items() if k in names}
        return grid.Recipe(**{**given, 'steps': steps})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The config of `jepa-text evaluate`."""

    name: str = field('evaluation', 'of the page')
    models: tuple[str, ...] = field(
        doc="workdirs of runs, and 'hf:' with a name or folder"
    )
    tasks: tuple[dict, ...] = field(
        doc="files of jepa_text/evaluation/tasks, as dict(name='sst2', path='...')"
    )
    learning_rates: tuple[float, ...] = field(LEARNING_RATES, 'of the grid')
    seeds: int = field(5, 'of the grid: 0 and on; 5 at least for a verdict', minimum=1)
    finetuning: Finetuning = section(Finetuning, 'how each member is trained')
    controls: tuple[str, ...] = field(
        ('words',),
        'beside the models: of words, and each model at random initialization',
        choices=('words', 'untrained'),
    )
    select_by: str = field(
        'standard', 'definition of the metric', choices=('standard', 'paper')
    )
    selection: str = field(
        'pooled',
        'of the learning rate: one for all seeds, or one for each',
        choices=('pooled', 'per seed'),
    )
    hub: dict = field(
        {},
        'benchmarks of the hub, for .eval_results of each model, as '
        "{'sst2': {'id': 'nyu-mll/glue', 'task_id': 'sst2'}}",
    )
    train: int = field(0, 'examples to learn from, drawn by seed; 0: all', minimum=0)
    test: int = field(0, 'examples to measure on; 0: all', minimum=0)
    width: int = field(
        0,
        'members that are claimed together and, as many as fit into memory, trained at '
        'once; 0: on CPUs 1, else a seed of each rate on each device',
        minimum=0,
    )
    hardware: str = field(
        '', 'CHIP or CHIP:COUNT that --dry-run tells the hours of; that of this machine'
    )
    lease: float = field(60.0, 'seconds after which a silent worker is given up', above=0)
    attempts: int = field(3, 'at a member that fails', minimum=1)
    compilation_cache: str = compilation.choice()

    def __post_init__(self):
        if not self.models or not self.tasks:
            raise ValueError(
                'evaluate needs models and tasks: '
                '--config=configs/evaluate.py:models=runs/a,hf:NAME,tasks=mine.jsonl'
            )
        if self.hardware:
            hardware.find(self.hardware)
        for rate in self.learning_rates:
            ranges.number('learning_rates', rate, above=0)
        if not self.learning_rates or len(set(self.learning_rates)) < len(
            self.learning_rates
        ):
            raise ValueError(
                f'learning_rates={self.learning_rates}: give at least one, and each once.'
            )
