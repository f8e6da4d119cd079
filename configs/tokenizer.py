r"""Training of a tokenizer on a corpus, with measurements of its fit.

    jepa-text tokenizer --config=tokenizer:bpe,32768,texts/ \
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

from jepa_text.data import sources

KINDS = ('bpe', 'unigram')


def get_config(chosen=''):
    """Returns the config with the kind, size and text of the argument."""
    config = ConfigDict(dict(source=dict(name='bundled'), train={}))
    for word in filter(None, chosen.split(',')):
        if word in KINDS:
            config.train.kind = word
        elif word.isdecimal():
            config.train.vocab_size = int(word)
        elif word != 'bundled':
            config.source = sources.section_of(word)
    return config
