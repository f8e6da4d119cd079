"""Documents to rows to batches."""
