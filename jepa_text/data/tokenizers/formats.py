"""Conversion of tokenizers in other formats to the content of a tokenizer.json.

tokenizer.json, or a folder with one    unchanged
x.model                                 SentencePiece
x.tiktoken                              tiktoken's ranks
'tiktoken:cl100k_base'                  the same, from the package tiktoken
"""

from jepa_text.data import tokenizers
from jepa_text.files import copies

NAMED, SUFFIXES = 'tiktoken:', ('.model', '.tiktoken')


def read(name, pattern=''):
    """Returns (content of a tokenizer.json, lines that say what was read and how).

    name       a path, or 'tiktoken:NAME'
    pattern    the regular expression that splits text for a .tiktoken file; '' for that
               of the encoding it is named after

    Raises FileNotFoundError, ModuleNotFoundError if a required package is missing, and
    ValueError for a file in another format.
    """
    if name.startswith(NAMED):
        from jepa_text.data.tokenizers import tiktoken_ranks

        return tiktoken_ranks.named(name.removeprefix(NAMED))
    path = copies.local_file('The tokenizer', name, tokenizers.BUNDLED.name)
    if path.suffix in SUFFIXES and not path.is_file():
        raise FileNotFoundError(
            f'No tokenizer at {path}: this file does not exist. Give the path of one '
            f'that ends in {" or ".join(SUFFIXES)}, a tokenizer.json, or hf:NAME.'
        )
    if path.suffix == '.model':
        from jepa_text.data.tokenizers import sentencepiece_model

        return sentencepiece_model.read(path)
    if path.suffix == '.tiktoken':
        from jepa_text.data.tokenizers import tiktoken_ranks

        return tiktoken_ranks.read(path, pattern)
    content, path = tokenizers.read(path)
    return content, [f'read from {path}']
