"""Text data: corpora, cleaning, tokenization, prepared rows, masking and batches."""
