"""Latent targets: which vectors are predicted, how they are normalized and compared.

Shared by the objectives that predict latents; each objective defines what is masked and
which module predicts.
"""

import dataclasses
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp

from jepa_text import losses
from jepa_text.losses import regularizers
from jepa_text.objectives.base import share_schedule, step_key
from jepa_text.settings import ranges, resolve

PAPER_MOMENTUM = {'name': 'linear', 'start': 0.996, 'end': 1.0}

# Allowed values of the numbers in a section.
RANGES = {
    'layer': dict(whole=True),
    'beta': dict(above=0),
    'temperature': dict(above=0),
    'negatives': dict(whole=True, minimum=1),
    'top': dict(whole=True, minimum=1),
}
REGULARIZER_RANGES = {
    'weight': dict(minimum=0),
    'sample': dict(whole=True, minimum=1),
    'directions': dict(whole=True, minimum=1),
}


def make(section, steps):
    """Returns a Latent from a section of its keywords; `steps` is the phase length.

    `momentum` is a number or a section of schedules.py; None means no EMA copy.
    `regularizer={'name': 'sigreg', 'weight': 0.05}` adds a term. Raises ValueError for an
    unknown keyword or choice, and a number out of range.
    """
    options = {'momentum': PAPER_MOMENTUM, **section}
    if options['momentum'] is not None:
        options['momentum'] = share_schedule(
            options['momentum'], steps, 'latent: momentum'
        )
    if options.get('regularizer') is not None:
        options['regularizer'] = resolve.call(
            'latent regularizer', Regularizer, options['regularizer']
        )
    return resolve.call('latent', Latent, options)


@dataclasses.dataclass(frozen=True)
class Regularizer:
    """A loss term against collapse, on at most `sample` latents of a step."""

    name: Literal['sigreg', 'vicreg']
    weight: float
    sample: int = 1024
    directions: int = 256

    def __post_init__(self):
        for name, bounds in REGULARIZER_RANGES.items():
            ranges.number(f'latent: regularizer: {name}', getattr(self, name), **bounds)

    def __call__(self, vectors_ND, where_N, key):
        """Returns the penalty, a float32 scalar."""
        if self.name == 'vicreg':
            variance = regularizers.vicreg_variance(vectors_ND, where_N)
            covariance = regularizers.vicreg_covariance(vectors_ND, where_N)
            return variance + covariance / 25
        width = vectors_ND.shape[-1]
        directions = regularizers.random_directions(key, self.directions, width)
        return regularizers.sigreg(vectors_ND, directions, where_N)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Latent:
    """The target of the latent loss, and how predictions are compared with it.

    The target is the encoder's `layer`, counted as in `Pretrained.encode` (-1 or depth:
    the last, after its norm; 1: the first; 0: the embedding), or the average of the last
    `top` layers, each normalized. Layers are the outputs of whole blocks, whereas
    data2vec, which also averages them, takes the outputs of the feed-forward networks
    before they are added to the residual stream.

    `distance` compares; `beta` is for smooth_l1, `temperature` for info_nce. InfoNCE sees
    one microbatch at a time, and at most `negatives` of its targets, drawn again in each
    step.

    Without `momentum` the target is the encoder itself, with or without `stop_gradient`.
    `ema='layers'` shares the embedding with the encoder.
    """

    layer: int = -1
    top: int | None = None
    normalize: Literal['layer', 'instance', 'none'] = 'layer'
    distance: Literal['cosine', 'smooth_l1', 'mse', 'info_nce'] = 'cosine'
    beta: float = 1.0
    temperature: float = 0.1
    negatives: int = 1024
    momentum: Callable | None
    ema: Literal['all', 'layers'] = 'all'
    stop_gradient: bool = True
    regularizer: Regularizer | None = None

    def __post_init__(self):
        for name, bounds in RANGES.items():
            if getattr(self, name) is not None:
                ranges.number(f'latent: {name}', getattr(self, name), **bounds)
        has_ema = self.momentum is not None
        idle = {
            'layer': (self.layer != -1 and self.top, 'with top', 'set top=None'),
            'ema': (self.ema != 'all' and not has_ema, 'without an EMA', 'set momentum'),
            'stop_gradient': (
                not self.stop_gradient and has_ema,
                'with an EMA, into which no gradient flows',
                'set momentum=None',
            ),
        }
        for name, (is_idle, where, remedy) in idle.items():
            if is_idle:
                raise ValueError(
                    f'latent: {name}={getattr(self, name)!r} has no effect {where}. '
                    f'Omit it, or {remedy}.'
                )

    def check_depth(self, depth):
        """Raises ValueError if an encoder of so many layers lacks the target's layer."""
        ranges.number('latent: layer', self.layer, minimum=-depth - 1, maximum=depth)
        ranges.number('latent: top', self.top or 1, maximum=depth)

    @jax.named_scope('target')
    def targets(self, params, view):
        """Returns target_BLD of the clean rows, float32."""
        encoder = params['encoder'] if self.momentum is None else view.target
        every_layer = bool(self.top) or self.layer != -1
        hidden = view.apply(
            'encoder',
            {'encoder': encoder},
            view.batch['tokens'],
            view.batch['segment_ids'],
            view.batch['positions'],
            causal=False,
            every_layer=every_layer,
        )
        segment_ids_BL = view.batch['segment_ids']
        if self.top:
            # hidden[1][0] is the embedding.
            target_BLD = losses.average_layers(
                hidden[1][1:], self.top, lambda x: self._normalized(x, segment_ids_BL)
            )
        else:
            if every_layer:
                last_BLD, layers_NBLD = hidden
                hidden = [*layers_NBLD[:-1], last_BLD][self.layer]
            target_BLD = self._normalized(hidden, segment_ids_BL)
        if self.momentum is not None or self.stop_gradient:
            target_BLD = jax.lax.stop_gradient(target_BLD)
        return target_BLD

    def _normalized(self, x_BLD, segment_ids_BL):
        if self.normalize == 'layer':
            return losses.layer_normalize(x_BLD)
        if self.normalize == 'instance':
            return losses.instance_normalize(x_BLD, segment_ids_BL)
        return x_BLD.astype(jnp.float32)

    def penalty(self, view, prediction):
        """Returns {name: this part's share} of the regularizer's loss, or {} without one.

        A regularizer is applied to the vectors of one microbatch at a time. SIGReg, which
        grows with the number of vectors, is scaled as if applied to those of the whole
        batch.
        """
        rule, where_BM = self.regularizer, prediction.where_BM
        if rule is None:
            return {}
        count = jnp.sum(where_BM).astype(jnp.float32)
        whole = jnp.maximum(view.counts['latent'], 1).astype(jnp.float32)
        share = count / whole
        vectors_BMD = prediction.regularized_BMD
        vectors_ND = vectors_BMD.reshape(-1, vectors_BMD.shape[-1])
        where_N = where_BM.reshape(-1)
        # The number of true vectors in a sample of the part, and of the batch.
        maximum = count * (rule.sample / len(where_N))
        times = jnp.minimum(whole, maximum) / jnp.maximum(jnp.minimum(count, maximum), 1)
        order_N = jax.random.permutation(step_key(view, 'sample'), len(where_N))
        take = order_N[: rule.sample]
        vectors_ND, where_N = vectors_ND[take], where_N[take]
        if rule.name == 'sigreg':
            share = share * jnp.maximum(times, 1)
        with jax.named_scope(rule.name):
            key = step_key(view, 'directions')
            return {rule.name: rule(vectors_ND, where_N, key) * share}

    def compare(self, view, prediction_BMD, target_BMD, where_BM):
        """Returns the distance_BM at each position."""
        if self.distance == 'cosine':
            return losses.cosine_distance(prediction_BMD, target_BMD)
        if self.distance == 'smooth_l1':
            return losses.smooth_l1(prediction_BMD, target_BMD, self.beta)
        if self.distance == 'mse':
            return losses.mse(prediction_BMD, target_BMD)
        flat = [x.reshape(-1, x.shape[-1]) for x in (prediction_BMD, target_BMD)]
        where_N = where_BM.reshape(-1)
        negatives_S = self._negatives(where_N, view)
        loss_N = losses.info_nce(*flat, where_N, self.temperature, negatives_S)
        return loss_N.reshape(where_BM.shape)

    def _negatives(self, where_N, view):
        """Returns indices of at most `negatives` random targets, true ones first.

        None if there are no more than `negatives`: all are used.
        """
        if len(where_N) <= self.negatives:
            return None
        uniform_N = jax.random.uniform(step_key(view, 'negatives'), where_N.shape)
        order_N = jnp.where(where_N, uniform_N, -1.0)
        return jax.lax.top_k(order_N, self.negatives)[1]
