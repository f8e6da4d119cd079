"""How good answers are: each metric as the field defines it, and as the paper did.

The paper is arXiv 2507.00994, whose definitions of tags, spans and ranking are its own
and give other values than the usual ones on the same answers. Both are always measured.
"""
