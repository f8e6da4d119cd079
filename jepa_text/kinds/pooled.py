"""What kinds that read one vector per text have in common."""

from jepa_text.kinds import base
from jepa_text.models import pooling


class PooledKind(base.Kind):
    """A kind that reads one vector per text: hidden states reduced by its `pool`."""

    pool: str

    def __post_init__(self):
        if self.pool not in pooling.POOLINGS:
            known = ', '.join(pooling.POOLINGS)
            raise ValueError(f'pool={self.pool!r} does not exist; there are: {known}.')

    def features(self, network, params, batch):
        """pooled_BD: the vectors."""
        hidden_BLD = base.hidden(network, params, batch)
        return pooling.POOLINGS[self.pool](hidden_BLD, batch['segment_ids'] > 0)
