"""Corpus cleaning: quality filters, deduplication and decontamination."""
