"""What a long run needs around its steps: checkpoints, signals, metrics."""
