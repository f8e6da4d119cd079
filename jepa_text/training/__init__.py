"""Training runs: a config becomes a recipe, and the recipe a trained state."""
