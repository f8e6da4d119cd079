"""Batches to hidden states."""
