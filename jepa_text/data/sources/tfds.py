"""TensorFlow Datasets without TensorFlow: what was prepared as ArrayRecord.

    config.prepare.source = dict(name='tfds', path='tfds:lm1b')
    config.prepare.source = dict(name='tfds', path='~/tensorflow_datasets/lm1b/1.1.0')

It is made once, anywhere, by `tfds build --file_format=array_record lm1b`; of a corpus of
your own by data/corpora/tfds_builder.py. A name is looked for in TFDS_DATA_DIR, or
~/tensorflow_datasets.
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
    """The documents of a split: the examples of all of the data set's own `splits`.

    `text` is taken from `field`; other features are left out. About one in
    `heldout_every` is held out, by its text (corpora/reading.py). Raises
    FileNotFoundError for a folder or name of no prepared data set, and ValueError for
    another file format, an unknown split or field, and, when read, a damaged file. Text
    that is not UTF-8 is bad.
    """
    reading.check_split(split, heldout_every)
    builder = _builder(str(path))
    folder = builder.data_dir
    file_format = builder.info.file_format.value
    if file_format != 'array_record':
        # Without TensorFlow others cannot be read, and Parquet is read wrongly.
        raise ValueError(
            f'{folder} is written as {file_format}; only array_record is read here. '
            f'Build it anew: tfds build --file_format=array_record {builder.name}.'
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
    """What reads a prepared data set at a path, or of a name."""
    import tensorflow_datasets as tfds

    if path.startswith(NAMED):
        name = path.removeprefix(NAMED)
        try:
            builder = tfds.builder(name)
        except (ValueError, ImportError, tfds.core.DatasetNotFoundError) as error:
            raise FileNotFoundError(
                f'{path}: there is no data set of that name, prepared or known '
                f'({str(error).splitlines()[0]}). Give its folder, or set TFDS_DATA_DIR.'
            ) from error
        folder = Path(builder.data_dir)
        remedy = f'Make it: tfds build --file_format=array_record {name}.'
    else:
        folder = Path(paths.local('The path of the data set', path)).expanduser()
        remedy = 'Give the folder of one version, as ~/tensorflow_datasets/lm1b/1.1.0.'
    if not (folder / 'dataset_info.json').is_file():
        raise FileNotFoundError(
            f'{folder} is no prepared data set: it has no dataset_info.json. {remedy}'
        )
    return tfds.builder_from_directory(folder)


@dataclasses.dataclass(frozen=True)
class Documents:
    """Those of a split, read anew whenever one iterates."""

    builder: Any
    field: str
    splits: tuple
    split: str
    heldout_every: int

    def with_bad(self):
        """The documents, and a invalid_text.Bad in the place of each that is no text."""
        for name in self.splits:
            for number, example in enumerate(self._examples(name)):
                value = example[self.field]
                where = f'{self.builder.name}, {name}, example {number}'
                document = _document(value, where)
                if reading.in_split(value, self.split, self.heldout_every):
                    yield document

    def _examples(self, name):
        """Those of a split of the data set; ValueError where a file of it is damaged."""
        read = 0
        try:
            for example in self.builder.as_data_source(name):
                if example[self.field] is None:  # So it tells of some files that are cut.
                    raise self._damaged(name, read, 'it is empty')
                yield example
                read += 1
        except RuntimeError as error:  # So of all others, whatever is wrong.
            raise self._damaged(name, read, error) from error

    def _damaged(self, name, number, why):
        """The error for the file that example `number` of a split is in."""
        known = self.builder.info.splits[name]
        ends = list(itertools.accumulate(known.shard_lengths))
        path = known.filepaths[bisect.bisect_right(ends, number)]
        return ValueError(
            f'{path} is damaged, cut or missing: example {number} of the split {name!r} '
            f'cannot be read ({why}). Copy or build the data set again.'
        )

    def __iter__(self):
        return invalid_text.good(self.with_bad())


def _document(value, where):
    """A document or a invalid_text.Bad of what a feature holds."""
    if not isinstance(value, str | bytes):
        # A number has bytes too: what is no byte string is no text.
        raise ValueError(
            f'{where}: the feature is {type(value).__name__}, not UTF-8 text. Name the '
            'one that holds the text, such as --config.prepare.source.field=...'
        )
    try:
        return {'text': value if isinstance(value, str) else value.decode('utf-8')}
    except UnicodeDecodeError as error:
        return invalid_text.Bad(
            invalid_text.NOT_UTF8,
            f'{where} is not UTF-8: byte 0x{value[error.start]:02x} at {error.start}.',
            where,
        )
