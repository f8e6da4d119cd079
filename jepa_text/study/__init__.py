"""Several runs on the same rows, compared."""
