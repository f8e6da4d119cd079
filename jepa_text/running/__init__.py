"""The run-time services of training: checkpoints, metrics, signals, shared workdirs."""
