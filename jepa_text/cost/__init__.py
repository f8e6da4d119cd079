"""Arithmetic of a step, and what chips do."""
