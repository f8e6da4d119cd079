"""Vectors of a model as a transformer of scikit-learn (extra `eval`)."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from jepa_text.files import extras
from jepa_text.pretrained import load
from jepa_text.pretrained.base import listed

extras.package('sklearn', 'eval', 'jepa_text.sklearn')
from sklearn import base  # noqa: E402


class TextEncoder(
    base.ClassNamePrefixFeaturesOutMixin, base.TransformerMixin, base.BaseEstimator
):
    """Texts -> vectors [N, D], for a Pipeline.

        make_pipeline(TextEncoder('runs/mine'), LogisticRegression()).fit(texts, labels)

    `model` is a name, as for `load`, or a loaded model, which saves the time to load it
    for each clone. The other parameters are those of its `encode`, which `GridSearchCV`
    can choose. Nothing is fitted.
    """

    def __init__(
        self,
        model: str | os.PathLike | load.Pretrained,
        layer: int = -1,
        pool: str | None = None,
        normalize: bool | None = None,
        batch_size: int | None = None,
    ):
        self.model = model
        self.layer = layer
        self.pool = pool
        self.normalize = normalize
        self.batch_size = batch_size

    def fit(self, X: Any, y: Any = None) -> 'TextEncoder':
        """Loads the model; X and y are not read."""
        model = self.model
        self.model_ = load.load(model) if isinstance(model, str | os.PathLike) else model
        self._given, self._n_features_out = model, self.model_.network.encoder.width
        return self

    def transform(self, X: Iterable[str]) -> np.ndarray:
        """Returns the vectors of texts, float32 [N, D]."""
        if getattr(self, '_given', None) is not self.model:  # also after set_params
            self.fit(X)
        options = self.get_params(deep=False)
        options.pop('model')
        return self.model_.encode(listed(X), **options)

    def __sklearn_clone__(self):
        # By default, the parameters of a loaded model would be copied.
        return type(self)(**self.get_params(deep=False))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.requires_fit = False
        return tags
