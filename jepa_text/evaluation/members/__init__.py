"""Training of grid members: one fine-tuning run per learning rate and seed."""
