"""Classification and span heads, as the model classes of transformers define them.

    sequence   classifier(act(dense(pooled hidden states))); of decoders, a matrix alone
    token      classifier(hidden state), or of act(dense(hidden state))
    question   the same: scores of the first and the last token of an answer

CLASSES lists the classes of each family, with their parameter names.
"""

import dataclasses
import re

import numpy as np

from jepa_text.config import resolve

_PLAIN = {'classifier': 'classifier'}
# Their name for each of our leaves.
_LEAVES = {'kernel': 'weight', 'scale': 'weight', 'bias': 'bias'}
WHAT = {
    'sequence': 'the classes of a text',
    'token': 'the classes of tokens',
    'question': 'question answering',
}


@dataclasses.dataclass(frozen=True)
class Class:
    """A class of transformers: names of its parts {ours: theirs}, poolings {ours: theirs}
    (none for tokens; the usual one first), `act` of the layer before the last ('': no
    such layer; 'unbiased': nor a bias), and the prefix of the encoder's names if it is
    not that of the family."""

    architecture: str
    names: dict
    pools: dict = dataclasses.field(default_factory=dict)
    act: str = ''
    prefix: str | None = None


def _bert(prefix, sequence):
    """The classes of BERT or RoBERTa, whose dense layer reads the first token."""
    first = {'cls': None}
    return {
        'sequence': Class(f'{prefix}ForSequenceClassification', sequence, first, 'tanh'),
        'token': Class(f'{prefix}ForTokenClassification', _PLAIN),
        'question': Class(f'{prefix}ForQuestionAnswering', {'classifier': 'qa_outputs'}),
    }


def _decoder(prefix, encoder=None):
    """The classes of a decoder; that for answers has a prefix of its own."""
    score, answers = {'classifier': 'score'}, {'classifier': 'qa_outputs'}
    last = {'last': None}
    return {
        'sequence': Class(f'{prefix}ForSequenceClassification', score, last, 'unbiased'),
        'token': Class(f'{prefix}ForTokenClassification', score),
        'question': Class(f'{prefix}ForQuestionAnswering', answers, prefix=encoder),
    }


def _modernbert():
    names = {'dense': 'head.dense', 'norm': 'head.norm', **_PLAIN}
    ends = {
        'sequence': ('SequenceClassification', {'mean': 'mean', 'cls': 'cls'}),
        'token': ('TokenClassification', {}),
        'question': ('QuestionAnswering', {}),
    }
    return {
        kind: Class(f'ModernBertFor{end}', names, pools, 'gelu_norm')
        for kind, (end, pools) in ends.items()
    }


_ROBERTA = {'dense': 'classifier.dense', 'classifier': 'classifier.out_proj'}
CLASSES = {
    'eurobert': {
        'sequence': Class(
            'EuroBertForSequenceClassification',
            {'dense': 'dense', **_PLAIN},
            {'mean': 'mean', 'cls': 'bos', 'late': 'late'},
            'gelu',
        ),
        'token': Class('EuroBertForTokenClassification', _PLAIN),
    },
    'bert': _bert('Bert', {'dense': 'bert.pooler.dense', **_PLAIN}),
    'roberta': _bert('Roberta', _ROBERTA),
    'xlm-roberta': _bert('XLMRoberta', _ROBERTA),
    'modernbert': _modernbert(),
    'llama': _decoder('Llama', 'transformer.'),
    'mistral': _decoder('Mistral'),
    'qwen2': _decoder('Qwen2', 'transformer.'),
    'qwen3': _decoder('Qwen3', 'transformer.'),
    'smollm3': _decoder('SmolLM3', 'transformer.'),
}


@dataclasses.dataclass(frozen=True, eq=False)
class TaskHead:
    """A head that replaces the LM head.

    params    {'classifier': {'kernel', 'bias'}}, without bias for act='unbiased'; with a
              layer before it also 'dense' with the same leaves and, for act='gelu_norm',
              'norm' of a LayerNorm
    labels    a name for each score
    pool      of 'sequence': 'mean', 'cls', 'last', or 'late', the mean of the scores of
              tokens; special tokens are included
    is_score  its only output is a number, not a class
    described  further settings for answers, as JSON: the kind, as in its config.json
    """

    kind: str
    params: dict
    labels: tuple
    pool: str = 'mean'
    act: str = 'gelu'
    is_score: bool = False
    described: dict | None = None

    def __post_init__(self):
        resolve.check_choice('task head', self.kind, WHAT)
        classes = self.params['classifier']['kernel'].shape[-1]
        if classes != len(self.labels):
            raise ValueError(
                f'{classes} classes, but labels={self.labels}: give one name per class.'
            )

    def tensors(self, family):
        """{their name: array}. Raises ValueError as `fitting` does."""
        tensors = {}
        for part, name in self.fitting(family).names.items():
            for leaf, x in self.params[part].items():
                x = np.asarray(x, np.float32)
                tensors[f'{name}.{_LEAVES[leaf]}'] = np.ascontiguousarray(x.T)
        return tensors

    def config(self, family):
        """Its entries for config.json. Raises ValueError as `fitting` does."""
        theirs = self.fitting(family)
        fields = {
            'architectures': [theirs.architecture],
            'num_labels': len(self.labels),
            'id2label': {str(i): label for i, label in enumerate(self.labels)},
            'label2id': {label: number for number, label in enumerate(self.labels)},
        }
        if self.kind == 'sequence':
            problem = 'regression' if self.is_score else 'single_label_classification'
            fields['problem_type'] = problem
        if theirs.pools.get(self.pool):
            fields['classifier_pooling'] = theirs.pools[self.pool]
        if family == 'modernbert':
            fields |= {'classifier_bias': True, 'classifier_activation': 'gelu'}
        if self.described is not None:
            fields['jepa_text'] = {'kind': self.described}
        return fields

    def fitting(self, family):
        """The Class of a family that computes the same as this head.

        Raises ValueError as `fitting` does.
        """
        return fitting(family, self.kind, self.pool, self.layers)

    @property
    def layers(self):
        """Its `act`, or '' or 'unbiased' if its parameters have no layer for it."""
        if 'dense' in self.params:
            return self.act
        return '' if 'bias' in self.params['classifier'] else 'unbiased'


def fitting(family, kind, pool, act):
    """The Class of a family that computes a head of a kind with a pooling and an act.

    Raises ValueError if there is none, with the settings for which there is one.
    """
    theirs = CLASSES.get(family, {}).get(kind)
    if theirs is None:
        supported = [name for name, known in CLASSES.items() if kind in known]
        raise ValueError(
            f'transformers has no class of {family} for {WHAT[kind]}, as this model '
            f'needs; families that have it: {", ".join(supported)}.'
        )
    is_pooled = not theirs.pools or pool in theirs.pools
    if act != theirs.act or not is_pooled:
        pools = ' or '.join(map(repr, theirs.pools))
        wanted = [f'finetuning.pool={pools}'] if pools else []
        own = [f'pool={pool!r}'] if pools else []
        raise ValueError(
            f'{theirs.architecture} of transformers computes something different from '
            f'this model, which has {", ".join([*own, f"act={act!r}"])}: fine-tune with '
            f'{", ".join([*wanted, f"finetuning.act={theirs.act!r}"])}.'
        )
    return theirs


def read(config, family, names, tensor):
    """The TaskHead of a folder; None if it has none that is supported.

    `names` are those of its tensors, `tensor(name)` returns one of them.
    """
    theirs, kind = class_of(config, family)
    if theirs is None:
        return None
    if config.get('problem_type') == 'multi_label_classification':
        return None
    if theirs.act == 'gelu_norm' and config['classifier_activation'] != 'gelu':
        return None
    pools = {name: pool for pool, name in theirs.pools.items()}
    usual = {'eurobert': 'late', 'modernbert': 'cls'}.get(family)
    pool = config.get('classifier_pooling', usual) if usual else None
    if pools and pool not in pools:
        return None
    params = _params(theirs, names, tensor)
    count = params['classifier']['kernel'].shape[-1]
    given = {int(number): str(label) for number, label in _labels(config).items()}
    own = config.get('jepa_text')
    return TaskHead(
        kind,
        params,
        tuple(given.get(number, f'LABEL_{number}') for number in range(count)),
        pools.get(pool, 'mean'),
        theirs.act,
        config.get('problem_type') == 'regression' or (kind == 'sequence' and count == 1),
        own.get('kind') if isinstance(own, dict) else None,
    )


def _params(theirs, names, tensor):
    """{part: its kernel or scale, and its bias} of a Class."""
    params = {}
    for part, name in theirs.names.items():
        weight = tensor(f'{name}.weight')
        leaf = 'scale' if part == 'norm' else 'kernel'
        params[part] = {leaf: np.ascontiguousarray(weight.T)}
        if f'{name}.bias' in names:
            params[part]['bias'] = tensor(f'{name}.bias')
        elif part != 'norm' and theirs.act != 'unbiased':
            params[part]['bias'] = np.zeros(len(weight), np.float32)
    return params


def class_of(config, family):
    """(Class, kind) of the architecture in a config.json; (None, None) without a task
    head."""
    named = (config.get('architectures') or [''])[0]
    for kind, theirs in CLASSES.get(family, {}).items():
        if theirs.architecture == named:
            return theirs, kind
    return None, None


def is_of(theirs, name):
    """Whether a tensor name is one of the head of a Class."""
    parts = '|'.join(map(re.escape, theirs.names.values()))
    return re.fullmatch(rf'({parts})\.(weight|bias)', name) is not None


def _labels(config):
    labels = config.get('id2label') or {}
    if not isinstance(labels, dict) or not all(str(key).isdigit() for key in labels):
        raise ValueError(
            f'config.json: id2label={labels!r} must have numbers from 0 on as keys.'
        )
    return labels
