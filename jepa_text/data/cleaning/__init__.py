"""What is left out of a corpus: poor text, copies, texts of evaluation sets."""
