"""'tfds:NAME': labeled sets that tensorflow_datasets has prepared on this machine."""

TFDS = 'tfds:'


def rows(name, words):
    """[rows or None] of the first split of each of `words` that is there; ImportError
    without tensorflow_datasets, ValueError for what is not prepared."""
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise ImportError(
            f'{TFDS}{name} needs tensorflow-datasets: pip install tensorflow-datasets. '
            'Or give a folder of .tsv, .jsonl or .parquet files.'
        ) from error
    try:
        # ArrayRecord is read without TensorFlow; only what is prepared already.
        builder = tfds.builder(name)
        known = list(builder.info.splits)
        sides = []
        for names in words:
            split = next((n for n in names if n in known), None)
            source = builder.as_data_source(split) if split else None
            sides.append(source and [_plain(row) for row in source])
    except Exception as error:
        # Of a name that is not there the rest is a list of all that exist.
        said, *_ = str(error).splitlines() or ['']
        raise ValueError(
            f'{TFDS}{name} cannot be read here ({type(error).__name__}: {said}) It must '
            'have been prepared on this machine as array_record; other formats need '
            'TensorFlow. Or give a folder of .tsv, .jsonl or .parquet files.'
        ) from error
    if sides[0] is None:
        raise ValueError(f'{TFDS}{name} has no split {words[0][0]!r}, but: {known}.')
    return tuple(sides)


def _plain(value):
    """Rows of numpy and bytes in plain Python."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    value = value.tolist() if hasattr(value, 'tolist') else value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value
