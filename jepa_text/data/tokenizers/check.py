"""Whether a tokenizer.json that can be read is one to train with."""

MAX_ID = 4_000_000
# Some of it any vocabulary has a word, a character or bytes for, or an unknown token.
PROBE = 'The whale and the sea, 1851. Ünïcode é 海 море 😀 \u2603'


def check(backend, content, ids, where):
    """Raises ValueError for a vocabulary that cannot be told apart, is far too large, or
    encodes nothing.

    backend: of the tokenizers library; content: the tokenizer.json; ids: {'mask_id': 3,
    ...}, None for what there is not; where: names it.
    """
    vocabulary = backend.get_vocab(with_added_tokens=True)
    by_id = {}
    for token, i in vocabulary.items():
        if by_id.setdefault(i, token) != token:
            raise ValueError(
                f'{where}: {by_id[i]!r} and {token!r} have the same id {i}, so neither '
                'can be told from the other. Give one of them an id of its own.'
            )
    for entry in content.get('added_tokens') or ():
        if vocabulary.get(entry['content']) != entry['id']:
            raise ValueError(
                f'{where}: added_tokens says that {entry["content"]!r} has id '
                f'{entry["id"]}, and the vocabulary gives it '
                f'{vocabulary.get(entry["content"])}. Make the two agree; the model was '
                'trained with one of them.'
            )
    for role in ('pad_id', 'bos_id', 'eos_id'):
        if ids['mask_id'] is not None and ids['mask_id'] == ids[role]:
            raise ValueError(
                f'{where}: mask and {role[:3]} are one token, of id {ids[role]}: what is '
                'masked could not be told from what is not there. Add a mask token.'
            )
    if max(by_id) >= MAX_ID:
        raise ValueError(
            f'{where}: {by_id[max(by_id)]!r} has id {max(by_id):,}, so an embedding '
            f'would have as many rows; at most {MAX_ID:,} are taken here. '
            'Number the vocabulary without gaps, or train a smaller one.'
        )
    _check_encodes(backend, where)


def _check_encodes(backend, where):
    remedy = 'Look at its normalizer, pre-tokenizer and unknown token.'
    try:
        ids = backend.encode(PROBE, add_special_tokens=False).ids
    except Exception as error:  # The library raises bare Exception.
        raise ValueError(
            f'{where} fails where it has no word for a text ({error}). {remedy}'
        ) from error
    if not ids:
        raise ValueError(f'{where} makes no token at all of {PROBE!r}. {remedy}')
