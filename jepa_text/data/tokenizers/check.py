"""Checks that the vocabulary of a tokenizer.json is usable for training."""

MAX_ID = 4_000_000
# Every vocabulary has a word, character, bytes or an unknown token for some of it.
PROBE = 'The whale and the sea, 1851. Ünïcode é 海 море 😀 \u2603'


def check(backend, content, ids):
    """Raises ValueError for a vocabulary with ambiguous ids, far too many entries, or
    that encodes nothing. Its message does not name the tokenizer.

    backend   of the tokenizers library
    content   of the tokenizer.json
    ids       {'mask_id': 3, ...}, None for missing tokens
    """
    vocabulary = backend.get_vocab(with_added_tokens=True)
    by_id = {}
    for token, i in vocabulary.items():
        if by_id.setdefault(i, token) != token:
            raise ValueError(
                f'{by_id[i]!r} and {token!r} have the same id {i}, so they '
                'cannot be distinguished. Give one of them a different id.'
            )
    for entry in content.get('added_tokens', ()):
        if vocabulary.get(entry['content']) != entry['id']:
            raise ValueError(
                f'{entry["content"]!r} has id {entry["id"]} in added_tokens, '
                f'but {vocabulary.get(entry["content"])} in the vocabulary. Correct the '
                'wrong one; the model was trained with one of them.'
            )
    for role in ('pad_id', 'bos_id', 'eos_id'):
        if ids['mask_id'] is not None and ids['mask_id'] == ids[role]:
            raise ValueError(
                f'mask and {role[:3]} are one token, of id {ids[role]}, so '
                'masked positions could not be recognized. Add a mask token.'
            )
    if (highest := max(by_id, default=0)) >= MAX_ID:
        raise ValueError(
            f'{by_id[highest]!r} has id {highest:,}, so an embedding '
            f'would have as many rows; the maximum is {MAX_ID:,}. Number the '
            'vocabulary without gaps, or train a smaller one.'
        )
    _check_encodes(backend)


def _check_encodes(backend):
    remedy = 'Check its normalizer, pre-tokenizer and unknown token.'
    try:
        ids = backend.encode(PROBE, add_special_tokens=False).ids
    except Exception as error:  # The library raises bare Exception.
        raise ValueError(
            f'fails on text outside its vocabulary ({error}). {remedy}'
        ) from error
    if not ids:
        raise ValueError(f'gives no tokens for {PROBE!r}. {remedy}')
