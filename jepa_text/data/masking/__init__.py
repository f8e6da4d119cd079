"""Selection of masked and target tokens: numpy samplers of fixed shape, on the host."""
