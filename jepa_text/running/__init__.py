"""The run-time services of training: checkpoints, metrics, shared workdirs."""
