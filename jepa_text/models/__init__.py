"""Encoders, heads and pooling: from tokens to hidden states, logits and vectors."""
