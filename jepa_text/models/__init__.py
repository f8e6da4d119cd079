"""Encoders, heads and pooling: from tokens to hidden states and vectors; their FLOPs."""
