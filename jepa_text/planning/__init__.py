"""Planning of runs and benchmarks: estimates, ahead-of-time compilation, step timing."""
