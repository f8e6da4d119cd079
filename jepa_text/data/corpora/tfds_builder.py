"""Exports a corpus as a TensorFlow Datasets dataset in ArrayRecord, without TensorFlow.

    tfds_builder.build('mine', {'name': 'text', 'path': '/texts'})

creates ~/tensorflow_datasets/jepa_corpus/mine/1.0.0 (or in TFDS_DATA_DIR). So does, if
TensorFlow is installed, which this command requires,

    tfds build jepa_corpus --imports=jepa_text.data.corpora.tfds_builder \\
      --file_format=array_record --config='{"name": "mine", "source": ...}'

It is read with

    config.prepare.source = dict(name='tfds', path='tfds:jepa_corpus/mine',
                                 splits=('train', 'heldout'))

An example is the text of a document, as the source yields it.
"""

import dataclasses

import tensorflow_datasets as tfds

from jepa_text.data.corpora import reading
from jepa_text.settings import resolve


@dataclasses.dataclass
class Config(tfds.core.BuilderConfig):
    """`source` is a section like prepare.source; its splits are those of the dataset."""

    name: str = 'bundled'
    source: dict = dataclasses.field(default_factory=lambda: {'name': 'bundled'})


class JepaCorpus(tfds.core.GeneratorBasedBuilder):
    """The texts of a corpus in the splits 'train' and 'heldout'."""

    VERSION = tfds.core.Version('1.0.0')
    BUILDER_CONFIGS = [Config()]

    def _info(self):
        features = tfds.features.FeaturesDict({'text': tfds.features.Text()})
        return tfds.core.DatasetInfo(
            builder=self,
            description=__doc__,
            features=features,
            disable_shuffling=True,  # the order of the source
        )

    def _split_generators(self, _):
        return {split: self._generate_examples(split) for split in reading.SPLITS}

    def _generate_examples(self, split):
        source = self.builder_config.source
        documents = resolve.build('data/sources', source, split=split)
        for number, document in enumerate(documents):
            yield number, {'text': document['text']}


def build(name, source, data_dir=None):
    """Creates the dataset jepa_corpus/NAME from a section like prepare.source, unless it
    exists, and returns its folder."""

    config = Config(name=name, source=source)
    builder = JepaCorpus(config=config, data_dir=data_dir, file_format='array_record')
    builder.download_and_prepare()
    return builder.data_dir
