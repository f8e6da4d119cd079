"""What this machine's devices are good for: `bash launch/accelerator.sh`."""
