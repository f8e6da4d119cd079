"""Metrics by the field's definitions and by those of arXiv 2507.00994.

The definitions of that paper for tags, spans and ranking differ from the usual ones and
give other values for the same predictions. Both are always measured.
"""
