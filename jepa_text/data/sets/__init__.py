"""Labeled sets, and sets by name."""
