"""What a corpus is, and how its files are read."""
