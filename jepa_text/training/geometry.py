"""The geometry of held-out vectors during training, which shows a collapse."""

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.data import pipeline
from jepa_text.measures import cloud, forms, geometry
from jepa_text.models import pooling
from jepa_text.training import heldout

MEASURES = {
    name: geometry.METRICS[name]
    for name in ('uniformity', 'mean_cosine', 'effective_rank', 'participation_ratio')
}
SUFFIXES = ('', '_length_residualized')
MAX_POOLED = 'geometry/effective_rank_max_pooled'
_POOLINGS = {name: pooling.POOLINGS[name] for name in ('mean', 'max')}


def make(recipe, section):
    """Returns the Evaluator of a run; `section` is a config.Geometry."""
    return Evaluator(
        pipeline.Rows(recipe.phases[0].mixture.parts[0].rows.folder, 'heldout'),
        recipe.mesh,
        batch_size=recipe.phases[0].batch_size,
        texts=section.texts,
        every=section.every_steps,
    )


class Evaluator:
    """Measures vectors of the same held-out texts for any parameters; compiled once.

    The texts are the first segments of the first `texts` rows, pooled as `encode` does.
    They are read bidirectionally whatever the objective, so that phases can be compared.
    """

    def __init__(self, rows, mesh, *, batch_size, texts=512, every=0):
        self.every = every
        self.rows, self.mesh, self.batch_size, self.texts = rows, mesh, batch_size, texts

    def run(self, params, network):
        """Returns {metric: value}, as geometry/uniformity, and each measure once more
        with the suffix _length_residualized.

        Vectors are mean-pooled, except for MAX_POOLED, the effective rank of max-pooled
        vectors. All are NaN if a vector is not finite, or there are not two texts:
        measuring does not stop a run.
        """
        vectors, lengths_N = self.vectors(params, network)
        names = [f'geometry/{name}{suffix}' for suffix in SUFFIXES for name in MEASURES]
        names.append(MAX_POOLED)
        is_finite = all(np.isfinite(vectors_ND).all() for vectors_ND in vectors.values())
        if not is_finite or len(lengths_N) < 2:
            return dict.fromkeys(names, float('nan'))
        controlled_ND = forms.length_residualized(vectors['mean'], lengths_N)
        clouds = map(cloud.as_cloud, (vectors['mean'], controlled_ND))
        values = [measure(one) for one in clouds for measure in MEASURES.values()]
        values.append(geometry.effective_rank(vectors['max']))
        return dict(zip(names, map(float, values), strict=True))

    def vectors(self, params, network):
        """Returns ({pooling: vectors_ND float32}, lengths_N) on each process."""
        pooled = heldout.on_mesh(self.mesh, _pooled, network)
        by_pooling, lengths = {name: [] for name in _POOLINGS}, []
        for batch in heldout.batches(
            self.rows, lambda row, *_: row, self.mesh, self.batch_size, self.texts
        ):
            inputs = (batch[key] for key in ('tokens', 'segment_ids', 'positions'))
            vectors, length_B = jax.device_get(
                pooled({'encoder': params['encoder']}, *inputs)
            )
            for name, vectors_BD in vectors.items():
                by_pooling[name].append(vectors_BD[length_B > 0])
            lengths.append(length_B[length_B > 0])
        joined = {name: np.concatenate(parts) for name, parts in by_pooling.items()}
        return joined, np.concatenate(lengths)


def _pooled(network, params, tokens_BL, segment_ids_BL, positions_BL):
    hidden_BLD = network.apply(
        'encoder', params, tokens_BL, segment_ids_BL, positions_BL, causal=False
    )
    valid_BL = segment_ids_BL == 1
    pooled = {name: pool(hidden_BLD, valid_BL) for name, pool in _POOLINGS.items()}
    return pooled, jnp.sum(valid_BL, axis=1)
