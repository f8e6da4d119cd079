"""Classification and span heads, as the model classes of transformers define them.

    sequence   classifier(act(dense(pooled hidden states))); of decoders, a matrix alone
    token      classifier(hidden state), or of act(dense(hidden state))
    question   the same: scores of the first and the last token of an answer

hf/families.py has the classes of each family, with their parameter names.
"""

import dataclasses

import numpy as np

from jepa_text.hf import weights
from jepa_text.hf.families import FAMILIES

WHAT = {
    'sequence': 'the classes of a text',
    'token': 'the classes of tokens',
    'question': 'question answering',
}
ENDS = {
    'sequence': 'SequenceClassification',
    'token': 'TokenClassification',
    'question': 'QuestionAnswering',
}


@dataclasses.dataclass(frozen=True, eq=False)
class TaskHead:
    """A head that replaces the LM head.

    params    {'classifier': {'kernel', 'bias'}}, without bias for act='unbiased'; with a
              layer before it also 'dense' with the same leaves and, for act='gelu_norm',
              'norm' of a LayerNorm
    labels    a name for each score
    pool      of 'sequence': 'mean', 'cls' or 'last'; special tokens are included
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

    def tensors(self, family):
        """{their name: array}. Raises ValueError as `fitting` does."""
        tensors = {}
        for part, name in self.fitting(family).names.items():
            for leaf, x in self.params[part].items():
                x = np.asarray(x, np.float32)
                tensors[name + weights.LEAVES[f'/{leaf}']] = np.ascontiguousarray(x.T)
        return tensors

    def config(self, family):
        """Its entries for config.json. Raises ValueError as `fitting` does."""
        theirs = self.fitting(family)
        fields = {
            'architectures': [architecture(family, self.kind)],
            'num_labels': len(self.labels),
            'id2label': {str(i): label for i, label in enumerate(self.labels)},
            'label2id': {label: number for number, label in enumerate(self.labels)},
        }
        if self.kind == 'sequence':
            problem = 'regression' if self.is_score else 'single_label_classification'
            fields['problem_type'] = problem
        if theirs.pools.get(self.pool):
            fields['classifier_pooling'] = theirs.pools[self.pool]
        if theirs.act == 'gelu_norm':
            fields |= {'classifier_bias': True, 'classifier_activation': 'gelu'}
        if self.described is not None:
            fields['jepa_text'] = {'kind': self.described}
        return fields

    def fitting(self, family):
        """The TaskClass of a family that computes the same as this head.

        Raises ValueError as `fitting` does.
        """
        return fitting(family, self.kind, self.pool, self.layers)

    @property
    def layers(self):
        """Its `act`, or '' or 'unbiased' if its parameters have no layer for it."""
        if 'dense' in self.params:
            return self.act
        return '' if 'bias' in self.params['classifier'] else 'unbiased'


def architecture(family, kind):
    """The name of a family's class for a form of head, a key of WHAT."""
    return f'{FAMILIES[family].stem}For{ENDS[kind]}'


def fitting(family, kind, pool, act):
    """The TaskClass of a family that computes a head of a kind with a pooling and an act.

    Raises ValueError if there is none, with the settings for which there is one.
    """
    theirs = FAMILIES[family].tasks.get(kind)
    if theirs is None:
        supported = [name for name, known in FAMILIES.items() if kind in known.tasks]
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
            f'{architecture(family, kind)} of transformers computes something different '
            f'from this model, which has {", ".join([*own, f"act={act!r}"])}: fine-tune '
            f'with {", ".join([*wanted, f"finetuning.act={theirs.act!r}"])}.'
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
    pool = config.get('classifier_pooling')
    if pools and pool not in pools:
        return None
    params = _params(theirs, names, tensor)
    count = params['classifier']['kernel'].shape[-1]
    if config.get('problem_type') == 'regression' and count > 1:
        return None
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
    """{part: its kernel or scale, and its bias} of a TaskClass."""
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
    """(TaskClass, kind) of the architecture in a config.json; (None, None) without a task
    head."""
    named = (config.get('architectures') or [''])[0]
    for kind, theirs in FAMILIES[family].tasks.items():
        if architecture(family, kind) == named:
            return theirs, kind
    return None, None


def _labels(config):
    labels = config.get('id2label') or {}
    if not isinstance(labels, dict) or not all(str(key).isdigit() for key in labels):
        raise ValueError(
            f'config.json: id2label={labels!r} must have numbers from 0 on as keys.'
        )
    return labels
