r"""A tokenizer of a corpus, and how well it fits.

    jepa-text tokenizer --config=configs/tokenizer.py:bpe,32768,texts/ \
      --workdir=runs/tokenizer

The argument names kind (bpe, unigram, wordpiece), size and text, each of which may be
left out: a folder of .txt files, or a .txt, .jsonl or .parquet file; without one it is
the bundled corpus. More, as the field of a text or a folder of Parquet files, is a
setting, as in a `prepare`:

    --config.source="{'name': 'parquet', 'path': 'corpus/', 'field': 'content'}"

One that exists is measured, and gets the special tokens that it lacks:

    --config.tokenizer=hf:answerdotai/ModernBERT-base --config.compare="('bundled',)"
"""

from ml_collections import ConfigDict

KINDS = ('bpe', 'unigram', 'wordpiece')
SOURCES = ('jsonl', 'parquet')


def get_config(chosen=''):
    """Kind, size and text of the argument."""
    config = ConfigDict(dict(source=dict(name='bundled'), train={}))
    for word in filter(None, chosen.split(',')):
        if word in KINDS:
            config.train.kind = word
        elif word.isdigit():
            config.train.vocab_size = int(word)
        elif word != 'bundled':
            found = [name for name in SOURCES if f'.{name}' in word]
            config.source = dict(name=[*found, 'text'][0], path=word)
    return config
