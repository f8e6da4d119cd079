"""Vectors of a model as a transformer of scikit-learn (extra `eval`)."""

from jepa_text.files import extras
from jepa_text.pretrained import load

base = extras.package('sklearn.base', 'eval', 'jepa_text.sklearn')


class TextEncoder(base.TransformerMixin, base.BaseEstimator):
    """Texts -> vectors [N, D], for a Pipeline.

        make_pipeline(TextEncoder('runs/mine'), LogisticRegression()).fit(texts, labels)

    `model` is a name, as for `load`, or a loaded model, which saves the time to load it
    for each clone. The other parameters are those of its `encode`, which `GridSearchCV`
    can choose. Nothing is fitted.
    """

    def __init__(self, model, layer=-1, pool=None, normalize=None, batch_size=None):
        self.model = model
        self.layer = layer
        self.pool = pool
        self.normalize = normalize
        self.batch_size = batch_size

    def fit(self, X, y=None):
        """Loads the model; X and y are not read."""
        is_name = isinstance(self.model, str)
        self.model_ = load.load(self.model) if is_name else self.model
        return self

    def transform(self, X):
        """Returns the vectors of texts, float32 [N, D]."""
        if not hasattr(self, 'model_'):
            self.fit(X)
        options = self.get_params(deep=False)
        options.pop('model')
        return self.model_.encode(list(X), **options)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.requires_fit = False
        return tags
