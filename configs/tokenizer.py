r"""Training of a tokenizer on a corpus, with measurements of its fit.

    jepa-text tokenizer tokenizer:vocab_size=32768,text=texts/ \
      --workdir=runs/tokenizer

The text is as for --text of `train`; by default, the bundled corpus. Further options,
such as the field of the text, are set on the command line as in `prepare.source`:

    --config.source="{'name': 'parquet', 'path': 'corpus/', 'field': 'content'}"

An existing tokenizer is measured, and missing special tokens are added:

    --config.tokenizer=hf:answerdotai/ModernBERT-base --config.compare="('bundled',)"
"""

from ml_collections import ConfigDict

from jepa_text.data import sources


def get_config(*, vocab_size=32768, text='bundled'):
    """Returns the config of a tokenizer of a text: byte-level BPE."""
    source = dict(name='bundled') if text == 'bundled' else sources.section_of(text)
    return ConfigDict(dict(source=source, train=dict(vocab_size=vocab_size)))
