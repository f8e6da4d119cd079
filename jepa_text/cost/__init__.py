"""FLOPs of training steps, results that are not computed twice, and accelerators' speed,
memory and price."""
