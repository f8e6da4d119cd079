"""Checks and benchmarks this machine's accelerators: `bash launch/accelerator.sh`."""
