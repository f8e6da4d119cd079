"""The geometry of held-out rows while a model trains: how it forms, or collapses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.config import schema
from jepa_text.data import pipeline, stream
from jepa_text.measures import cloud, forms, geometry
from jepa_text.models import pooling
from jepa_text.parallel import sharding
from jepa_text.training.evals import compiled

MEASURES = {
    name: geometry.METRICS[name]
    for name in ('uniformity', 'mean_cosine', 'effective_rank', 'participation_ratio')
}
FORMS = ('raw', 'length_residualized')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `geometry`: uniformity and ranks of held-out vectors as they form."""

    every: int = schema.field(0, 'steps, and where a phase ends; 0: never', minimum=0)
    texts: int = schema.field(512, 'held-out texts that are measured', minimum=2)


def make(recipe, section):
    """The Evaluator of a run, every so many steps; None if never."""
    if not section.every:
        return None
    return Evaluator(
        recipe.phases[0].network,
        pipeline.Rows(recipe.phases[0].mixture.parts[0].rows.folder, 'heldout'),
        recipe.mesh,
        batch_size=recipe.phases[0].batch_size,
        texts=section.texts,
        every=section.every,
    )


class Evaluator:
    """Vectors of the same held-out texts at any parameters; compiled once.

    A text is the first piece of a document in a row, mean-pooled as `encode` does, so
    there is one of each of the first `texts` rows; read bidirectionally, whatever the
    objective, so that the phases of a run compare.
    """

    def __init__(self, network, rows, mesh, *, batch_size, texts=Config.texts, every=0):
        self.every = every
        self.rows, self.mesh, self.batch_size, self.texts = rows, mesh, batch_size, texts
        self._network, self._pooled = network, compiled.OfEncoder(mesh, _pooled)

    def run(self, params, network=None):
        """{geometry/uniformity, ...; geometry/uniformity_length_residualized, ...}.

        NaN for all of them where vectors are not finite: a run is not ended by being
        looked at.
        """
        vectors_ND, lengths_N = self.vectors(params, network)
        names = {
            (name, form): f'geometry/{name}' + ('' if form == 'raw' else f'_{form}')
            for name in MEASURES
            for form in FORMS
        }
        if not np.isfinite(vectors_ND).all():
            return dict.fromkeys(names.values(), float('nan'))
        controlled_ND = forms.length_residualized(vectors_ND, lengths_N)
        clouds = {
            form: cloud.of(rows_ND)
            for form, rows_ND in zip(FORMS, (vectors_ND, controlled_ND))
        }
        return {
            key: float(MEASURES[name](clouds[form]))
            for (name, form), key in names.items()
        }

    def why_not(self, network):
        """Any network has vectors."""
        return ''

    def vectors(self, params, network=None):
        """(vectors_ND float32, lengths_N in tokens) of the texts, on every process."""
        pooled = self._pooled.of(network or self._network)
        index, parts = sharding.part_of_batch(self.mesh)
        batches = stream.heldout_batches(
            self.rows,
            _as_they_are,
            batch_size=self.batch_size,
            seed=0,
            max_rows=self.texts,
            process_index=index,
            process_count=parts,
        )
        found, lengths = [], []
        for batch in batches:
            put = sharding.put_batch(batch, self.mesh)
            inputs = (put[key] for key in ('tokens', 'segment_ids', 'positions'))
            pooled_BD, length_B = jax.device_get(
                pooled({'encoder': params['encoder']}, *inputs)
            )
            found.append(pooled_BD[length_B > 0])
            lengths.append(length_B[length_B > 0])
        return np.concatenate(found), np.concatenate(lengths)


def _pooled(network, params, tokens_BL, segment_ids_BL, positions_BL):
    hidden_BLD = network.apply(
        'encoder', params, tokens_BL, segment_ids_BL, positions_BL, causal=False
    )
    valid_BL = segment_ids_BL == 1
    return pooling.mean(hidden_BLD, valid_BL), jnp.sum(valid_BL, axis=1)


def _as_they_are(example, rng, step):
    """Nothing is masked."""
    return example
