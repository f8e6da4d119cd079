"""TensorFlow Datasets as corpora: datasets prepared as ArrayRecord, without TensorFlow.

    config.prepare.source = dict(name='tfds', path='tfds:lm1b')
    config.prepare.source = dict(name='tfds', path='~/tensorflow_datasets/lm1b/1.1.0')

Such a dataset is built once with `tfds build --file_format=array_record lm1b`. A name is
looked up in TFDS_DATA_DIR, by default ~/tensorflow_datasets. Its shards are the files of
the corpus.
"""

import functools
from pathlib import Path

from jepa_text.data.corpora import corpus, invalid_text, reading
from jepa_text.files import addresses, listing, paths
from jepa_text.settings import resolve

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
        resolve.check_choice(f'{folder}: split', name, builder.info.splits)
    resolve.check_choice(f'{folder}: feature', field, builder.info.features)
    files = tuple(
        addresses.File(f'{name}[{number}shard:{number + 1}shard]')
        for name in splits
        for number in range(builder.info.splits[name].num_shards)
    )
    read = functools.partial(_documents, builder, field)
    return corpus.Corpus(listing.Listing(files), read, split, heldout_every)


def _builder(path):
    import tensorflow_datasets as tfds

    folder = Path(paths.local('The path of the dataset', path))
    try:
        if path.startswith(NAMED):
            folder = tfds.builder(path.removeprefix(NAMED)).data_dir
        return tfds.builder_from_directory(folder)
    except (
        ValueError,
        ImportError,
        tfds.core.dataset_info.DatasetInfoFileError,
    ) as error:
        raise FileNotFoundError(
            f'{path} is not a prepared dataset ({str(error).splitlines()[0]}). Give the '
            'folder of one version, as ~/tensorflow_datasets/lm1b/1.1.0, set '
            'TFDS_DATA_DIR, or build it: tfds build --file_format=array_record NAME.'
        ) from error


def _documents(builder, field, piece):
    """Yields the documents of a corpus.Piece, which is a shard of a split of the dataset.

    Raises ValueError if it is damaged.
    """
    number = -1
    try:
        for number, example in enumerate(builder.as_data_source(piece.path)):
            if example[field] is None:
                raise RuntimeError('it is empty, as of some truncated files')
            where = f'{builder.name}, {piece.path}, example {number}'
            document = invalid_text.document({field: example[field]}, field, where)
            yield invalid_text.check(document, lambda where=where: where)
    except RuntimeError as error:  # the sign of damage
        raise ValueError(
            f'{builder.data_dir} is damaged, truncated or incomplete: example '
            f'{number + 1} of {piece.path} cannot be read ({error}). Copy or build the '
            'dataset again.'
        ) from error
