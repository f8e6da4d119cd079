"""What says the same with less: the baselines of an analysis.

    untrained            the same architecture at random initialization
    bag_of_embeddings    the mean of the model's own input embeddings: no context
    tf_idf               counts of words: no model at all (words.tf_idf)

All three read the same part of a text: what the model does (truncation.py). Where that is
not all, TF-IDF of the whole texts stands beside them under a name of its own.
What the first or the last reaches is no finding about training; what the bag reaches,
whose embeddings are trained, is none about the layers.
"""

import dataclasses
import functools

import jax
import numpy as np

from jepa_text.evaluation.controls import words

UNTRAINED, BAG, TF_IDF = 'untrained', 'bag of embeddings', 'TF-IDF'
WHOLE = 'TF-IDF of the whole texts'
CONTROLS = (UNTRAINED, BAG, TF_IDF)
# What needs no vector, and so is always there: readouts.baselines.
LARGEST, ALWAYS_ONE = 'largest class', 'always 1'
TF_IDF_WORDS = 1024


def untrained(model, seed=0):
    """A load.Pretrained with fresh parameters, as this package would start training it.

    For a model of others too: the initialization is ours then, not the one that it had.
    """
    params = jax.jit(functools.partial(model.network.init, seed))()
    return dataclasses.replace(
        model, params=params, name=f'{model.name} untrained at seed {seed}'
    )


def bag_of_embeddings(model, texts):
    """[N, D] float32: the mean over tokens, with specials, of the embedding table.

    Raises ValueError for a text without tokens.
    """
    table_VD = np.asarray(jax.device_get(model.params['encoder']['embedding']))
    table_VD = table_VD.astype(np.float32)
    return np.stack([table_VD[model.row(text)].mean(axis=0) for text in texts])


def tf_idf(texts, fitted_on):
    """[N, W] float32: TF-IDF over the commonest words of the training texts."""
    return words.tf_idf(texts, fitted_on, max_words=TF_IDF_WORDS)


def word_lengths(texts):
    """[N, 2]: words (at least 1) and characters, where there is no tokenizer."""
    return np.array([[max(1, len(words.words(t))), max(1, len(t))] for t in texts])
