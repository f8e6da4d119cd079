"""Which tokens are masked or predicted: numpy samplers of fixed shape, on the host."""
