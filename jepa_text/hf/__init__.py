"""Models of the Hugging Face formats become ours, and ours theirs, by one table each."""
