"""Downstream evaluation: tasks, fine-tuning, probes, retrieval, and result pages."""
