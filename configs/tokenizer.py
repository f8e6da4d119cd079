r"""Training of a tokenizer on a corpus, with measurements of its fit.

    jepa-text tokenizer --config=configs/tokenizer.py:bpe,32768,texts/ \
      --workdir=runs/tokenizer

The argument gives the kind (bpe or unigram), the vocabulary size and the text,
each of them optional. The text is a folder of .txt files, or a .txt, .jsonl, .parquet,
.csv or .tsv file; by default, the bundled corpus. Further options, such as the text field
or a folder of Parquet files, are set on the command line as in the section `prepare`:

    --config.source="{'name': 'parquet', 'path': 'corpus/', 'field': 'content'}"

An existing tokenizer is measured, and missing special tokens are added:

    --config.tokenizer=hf:answerdotai/ModernBERT-base --config.compare="('bundled',)"
"""

from ml_collections import ConfigDict

KINDS = ('bpe', 'unigram')
# {suffix of a file: source}; everything else is plain text.
SOURCES = {'.jsonl': 'jsonl', '.ndjson': 'jsonl', '.parquet': 'parquet'}
SOURCES |= {'.json': 'jsonl', '.arrow': 'parquet', '.csv': 'csv', '.tsv': 'csv'}


def get_config(chosen=''):
    """Returns the config with the kind, size and text of the argument."""
    config = ConfigDict(dict(source=dict(name='bundled'), train={}))
    for word in filter(None, chosen.split(',')):
        if word in KINDS:
            config.train.kind = word
        elif word.isdecimal():
            config.train.vocab_size = int(word)
        elif word != 'bundled':
            found = [name for end, name in SOURCES.items() if end in word.lower()]
            config.source = dict(name=[*found, 'text'][0], path=word)
    return config
