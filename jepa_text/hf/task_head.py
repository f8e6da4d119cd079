"""What sorts texts, or tokens, into classes, as EuroBERT's classes of tasks have it."""

import dataclasses

import numpy as np

PARTS = {'sequence': ['classifier', 'dense'], 'token': ['classifier']}
ARCHITECTURES = {
    'sequence': 'EuroBertForSequenceClassification',
    'token': 'EuroBertForTokenClassification',
}
POOLS = ('mean', 'bos', 'late')


@dataclasses.dataclass(frozen=True, eq=False)
class TaskHead:
    """A head that stands in the place of the one that scores tokens.

    sequence   classifier(gelu(dense(pooled hidden states)))
    token      classifier(hidden state)

    `params` is {'classifier': {'kernel', 'bias'}}, for 'sequence' also 'dense'. `pool` is
    'mean', 'bos', or 'late', the mean of the classes' scores; specials count.
    """

    kind: str
    params: dict
    labels: tuple
    pool: str = 'mean'

    def __post_init__(self):
        if self.kind not in PARTS or sorted(self.params) != PARTS[self.kind]:
            raise ValueError(
                f'task head {self.kind!r} of {sorted(self.params)}: there are sequence, '
                'of classifier and dense, and token, of classifier.'
            )
        if self.pool not in POOLS:
            raise ValueError(f'pool={self.pool!r}; there are: {", ".join(POOLS)}.')
        classes = len(self.params['classifier']['bias'])
        if classes != len(self.labels):
            raise ValueError(f'{classes} classes, but labels={self.labels}: name each.')

    def tensors(self):
        """{their name: array}."""
        found = {}
        for name, part in self.params.items():
            found[f'{name}.weight'] = np.ascontiguousarray(np.asarray(part['kernel']).T)
            found[f'{name}.bias'] = np.asarray(part['bias'])
        return found

    def config(self, family):
        """What config.json says of it; ValueError for a family with other heads."""
        if family != 'eurobert':
            raise ValueError(
                'A task head can be exported with eurobert, whose classes have the same '
                f'layers, and not with {family}.'
            )
        return {
            'architectures': [ARCHITECTURES[self.kind]],
            'classifier_pooling': self.pool,
            'id2label': dict(enumerate(self.labels)),
            'label2id': {label: number for number, label in enumerate(self.labels)},
        }
