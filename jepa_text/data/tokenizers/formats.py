"""A tokenizer of another format -> the content of a tokenizer.json.

tokenizer.json, or a folder with one    as it is
x.model                                 SentencePiece           (extra sp)
x.tiktoken, 'tiktoken:cl100k_base'      tiktoken's ranks        (extra tiktoken)
"""

from jepa_text.data import tokenizers
from jepa_text.files import copies

NAMED, SUFFIXES = 'tiktoken:', ('.model', '.tiktoken')


def read(name, pattern=''):
    """(content of a tokenizer.json, what it was read from and as: lines).

    name       a path, or 'tiktoken:NAME'
    pattern    the regular expression by which a .tiktoken file cuts a text; '': that of
               the encoding it is named after

    Raises FileNotFoundError, ModuleNotFoundError without the package that is needed, and
    ValueError for a file that is none of these.
    """
    if name.startswith(NAMED):
        from jepa_text.data.tokenizers import tiktoken_ranks

        return tiktoken_ranks.named(name.removeprefix(NAMED))
    path = copies.file('The tokenizer', name, tokenizers.BUNDLED.name)
    if path.suffix in SUFFIXES and not path.is_file():
        raise FileNotFoundError(
            f'No tokenizer at {path}: there is no such file. Give the path of one that '
            f'ends in {" or ".join(SUFFIXES)}, a tokenizer.json, or hf:NAME.'
        )
    if path.suffix == '.model':
        from jepa_text.data.tokenizers import sentencepiece_model

        return sentencepiece_model.read(path)
    if path.suffix == '.tiktoken':
        from jepa_text.data.tokenizers import tiktoken_ranks

        return tiktoken_ranks.read(path, pattern)
    content, path = tokenizers.read(path)
    return content, [f'read from {path}']
