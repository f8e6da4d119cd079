"""Measures of representations: pure functions of arrays."""
