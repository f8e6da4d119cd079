"""Preparation of the units of a corpus in parallel."""
