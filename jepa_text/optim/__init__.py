"""Loss to update: schedules and optimizers."""
