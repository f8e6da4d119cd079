"""Labeled datasets from TensorFlow Datasets, prepared on this machine: 'tfds:NAME'."""

TFDS = 'tfds:'


def rows(name, words):
    """Returns [rows or None] of the first existing split of each of `words`. Raises
    ValueError if the set is not prepared."""
    import tensorflow_datasets as tfds

    try:
        # ArrayRecord is read without TensorFlow; nothing is downloaded.
        builder = tfds.builder(name)
        known = list(builder.info.splits)
        parts = []
        for names in words:
            split = next((n for n in names if n in known), None)
            source = builder.as_data_source(split) if split else None
            parts.append(source and [_plain(row) for row in source])
    except Exception as error:
        # For an unknown name, the other lines list all known datasets.
        message, *_ = str(error).splitlines() or ['']
        raise ValueError(
            f'{TFDS}{name} cannot be read ({type(error).__name__}: {message}) It must '
            'have been prepared on this machine as array_record; other formats need '
            'TensorFlow. Or give a folder of .tsv, .jsonl or .parquet files.'
        ) from error
    if parts[0] is None:
        raise ValueError(f'{TFDS}{name} has no split {words[0][0]!r}, only: {known}.')
    return tuple(parts)


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    value = value.tolist() if hasattr(value, 'tolist') else value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value
