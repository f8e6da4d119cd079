"""Representation analysis: geometry and probes per model, layer, pooling and task."""
