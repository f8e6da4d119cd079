"""A small data set of TensorFlow Datasets, for the test of that source: a module of its
own, as builders must be."""

import numpy as np
import tensorflow_datasets as tfds


class WordsSet(tfds.core.GeneratorBasedBuilder):
    """Two splits of made-up sentences."""

    VERSION = tfds.core.Version('1.0.0')

    def _info(self):
        features = tfds.features.FeaturesDict(
            {'text': tfds.features.Text(), 'n': np.int64}
        )
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, manager):
        return {
            'train': self._generate_examples(0, 40),
            'test': self._generate_examples(40, 50),
        }

    def _generate_examples(self, start, stop):
        for n in range(start, stop):
            yield n, {'text': f'Sentence number {n}, é.', 'n': n}
