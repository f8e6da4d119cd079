"""FLOPs of steps, memoized results; speed, memory and price of accelerators."""
