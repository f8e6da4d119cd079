"""Baselines that need no pretraining or no context, to compare models with.

    untrained            the same architecture at random initialization
    bag_of_embeddings    the mean of the model's own input embeddings, without context
    TF_IDF               TF-IDF of the text, without a model (baselines.py)

All three read the same part of a text that the model reads (truncation.py). If texts are
truncated, TF-IDF of the whole texts is reported as well, under the name WHOLE.

What the untrained model or TF-IDF also reaches is no evidence about training. What the
bag also reaches, whose embeddings are trained, is no evidence about the layers.
"""

import dataclasses
import functools

import jax
import numpy as np

from jepa_text.evaluation.controls import words

UNTRAINED, BAG, TF_IDF = 'untrained', 'bag of embeddings', 'TF-IDF'
WHOLE = 'TF-IDF of the whole texts'
CONTROLS = (UNTRAINED, BAG, TF_IDF)
# Constant predictions: `baselines` of analysis/probes.py.
LARGEST, ALWAYS_SECOND = 'largest class', 'always the second class'


def untrained(model, seed=0):
    """Returns a copy of a load.Pretrained with freshly initialized parameters.

    Uses this package's initialization, also for models of other packages.
    """
    params = jax.jit(functools.partial(model.network.init, seed))()
    return dataclasses.replace(
        model, params=params, name=f'{model.name} untrained at seed {seed}'
    )


def bag_of_embeddings(model, texts):
    """Returns [N, D] float32: the mean embedding of each text's tokens, special ones
    included; raises ValueError for a text without tokens."""
    table_VD = np.asarray(jax.device_get(model.params['encoder']['embedding']))
    table_VD = table_VD.astype(np.float32)
    return np.stack([table_VD[model.row(text)].mean(axis=0) for text in texts])


def word_lengths(texts):
    """Returns [N, 2]: the numbers of words and of characters, each at least 1, of each
    text."""
    return np.array([[max(1, len(words.words(t))), max(1, len(t))] for t in texts])
