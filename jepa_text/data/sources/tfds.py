"""TensorFlow Datasets without TensorFlow: a folder that was prepared as ArrayRecord.

    config.prepare.source = dict(name='tfds', path='~/tensorflow_datasets/lm1b/1.1.0')

The folder is made once, anywhere, by `tfds build --file_format=array_record lm1b`.
"""

from pathlib import Path

from jepa_text.data import reading
from jepa_text.files import paths


def make(split, path, field='text', splits=('train',), heldout_every=100):
    """The documents of a split: the examples of all of the data set's own `splits`.

    `text` is taken from `field`; other features are left out. About one in
    `heldout_every` is held out, by its text (see data/reading.py). Raises
    FileNotFoundError for a folder that is no prepared data set, and ValueError for
    another file format, an unknown split or field, and text that is not UTF-8.
    """
    reading.check_split(split, heldout_every)
    folder = Path(paths.local('The path of the data set', path)).expanduser()
    if not (folder / 'dataset_info.json').is_file():
        raise FileNotFoundError(
            f'{folder} is no prepared data set: it has no dataset_info.json. Give the '
            'folder of one version, as ~/tensorflow_datasets/lm1b/1.1.0.'
        )
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(folder)
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
    return _documents(builder, field, splits, split, heldout_every)


def _documents(builder, field, splits, split, heldout_every):
    for name in splits:
        for number, example in enumerate(builder.as_data_source(name)):
            text = _text(example[field], f'{builder.name}, {name}, example {number}')
            if reading.in_split(text, split, heldout_every):
                yield {'text': text}


def _text(value, where):
    if isinstance(value, str):
        return value
    try:
        # A number has bytes too: what is no byte string is no text.
        return value.decode('utf-8')
    except (AttributeError, UnicodeDecodeError) as error:
        raise ValueError(
            f'{where}: the feature is {type(value).__name__}, not UTF-8 text. Name the '
            'one that holds the text, such as --config.prepare.source.field=...'
        ) from error
