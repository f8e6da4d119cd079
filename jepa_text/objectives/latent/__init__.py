"""Shared parts of the objectives that predict latents: targets, balance, diagnostics."""
