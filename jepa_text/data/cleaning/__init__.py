"""Corpus cleaning: lengths, exact duplicates and decontamination."""
