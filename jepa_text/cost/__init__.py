"""FLOPs of training steps, and the speed, memory and price of accelerators."""
