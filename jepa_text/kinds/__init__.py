"""Kinds of downstream tasks: rows of tokens, a head, a loss, and answers."""
