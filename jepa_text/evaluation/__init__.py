"""Tasks, and what can be read off the vectors of their texts."""
