"""TensorFlow Datasets as corpora: datasets prepared as ArrayRecord, without TensorFlow.

    config.prepare.source = dict(name='tfds', path='tfds:lm1b')
    config.prepare.source = dict(name='tfds', path='~/tensorflow_datasets/lm1b/1.1.0')

Such a dataset is built once with `tfds build --file_format=array_record lm1b`, or from
any corpus by data/corpora/tfds_builder.py. A name is looked up in TFDS_DATA_DIR, by
default ~/tensorflow_datasets.
"""

import bisect
import dataclasses
import itertools
from pathlib import Path
from typing import Any

from jepa_text.data.corpora import invalid_text, reading
from jepa_text.files import paths

NAMED = 'tfds:'


def make(split, path, field='text', splits=('train',), heldout_every=100):
    """Returns the documents of a split: examples of all `splits` of the dataset.

    `text` is taken from `field`; other features are dropped. About one example in
    `heldout_every` is held out, by its text (corpora/reading.py); one that is not UTF-8
    is an invalid_text.Bad. Raises FileNotFoundError if the folder or name is not a
    prepared dataset, and ValueError for another file format, an unknown split or field,
    and, when read, a damaged file.
    """
    reading.check_split(split, heldout_every)
    builder = _builder(str(path))
    folder = builder.data_dir
    file_format = builder.info.file_format.value
    if file_format != 'array_record':
        # Without TensorFlow, others cannot be read, or incorrectly (Parquet).
        raise ValueError(
            f'{folder} has the file format {file_format}; only array_record is '
            'supported. Build it again: tfds build --file_format=array_record '
            f'{builder.name}.'
        )
    for name in splits:
        if name not in builder.info.splits:
            known = ', '.join(sorted(builder.info.splits))
            raise ValueError(f'{folder} has no split {name!r}; it has: {known}.')
    if field not in builder.info.features:
        known = ', '.join(sorted(builder.info.features))
        raise ValueError(f'{folder} has no feature {field!r}; it has: {known}.')
    return Documents(builder, field, splits, split, heldout_every)


def _builder(path):
    """The builder of a prepared dataset, given its path or name."""
    import tensorflow_datasets as tfds

    if path.startswith(NAMED):
        name = path.removeprefix(NAMED)
        try:
            builder = tfds.builder(name)
        except (ValueError, ImportError, tfds.core.DatasetNotFoundError) as error:
            raise FileNotFoundError(
                f'{path}: no dataset with this name is known or prepared '
                f'({str(error).splitlines()[0]}). Give its folder, or set TFDS_DATA_DIR.'
            ) from error
        folder = Path(builder.data_dir)
        remedy = f'Build it: tfds build --file_format=array_record {name}.'
    else:
        folder = Path(paths.local('The path of the dataset', path)).expanduser()
        remedy = 'Give the folder of one version, as ~/tensorflow_datasets/lm1b/1.1.0.'
    if not (folder / 'dataset_info.json').is_file():
        raise FileNotFoundError(
            f'{folder} is not a prepared dataset: it has no dataset_info.json. {remedy}'
        )
    return tfds.builder_from_directory(folder)


@dataclasses.dataclass(frozen=True)
class Documents:
    """The documents of a split, read again on each iteration."""

    builder: Any
    field: str
    splits: tuple
    split: str
    heldout_every: int

    def with_bad(self):
        """Yields the documents, and an invalid_text.Bad in place of each invalid one.

        Raises ValueError, with the file, if one is damaged.
        """
        for name in self.splits:
            number = -1
            try:
                for number, example in enumerate(self.builder.as_data_source(name)):
                    value = example[self.field]
                    if value is None:  # the sign of some truncated files
                        raise self._damaged(name, number, 'it is empty')
                    document = _document(
                        value, f'{self.builder.name}, {name}, example {number}'
                    )
                    if reading.split_of(value, self.heldout_every) == self.split:
                        yield document
            except RuntimeError as error:  # the sign of all other damage
                raise self._damaged(name, number + 1, error) from error

    def _damaged(self, name, number, why):
        """The error for the file that contains example `number` of a split."""
        known = self.builder.info.splits[name]
        ends = list(itertools.accumulate(known.shard_lengths))
        path = known.filepaths[bisect.bisect_right(ends, number)]
        return ValueError(
            f'{path} is damaged, truncated or missing: example {number} of the split '
            f'{name!r} cannot be read ({why}). Copy or build the dataset again.'
        )

    def __iter__(self):
        return invalid_text.valid(self.with_bad())


def _document(value, where):
    """The document of a feature's value, or an invalid_text.Bad."""
    if not isinstance(value, str | bytes):
        raise ValueError(
            f'{where}: the feature is {type(value).__name__}, not UTF-8 text. Name the '
            'text feature, for example with --config.prepare.source.field=...'
        )
    try:
        return {'text': value if isinstance(value, str) else value.decode('utf-8')}
    except UnicodeDecodeError as error:
        at = f'byte 0x{value[error.start]:02x} at {error.start}'
        message = f'{where} is not UTF-8: {at}.'
        return invalid_text.Bad(invalid_text.NOT_UTF8, message, where)
