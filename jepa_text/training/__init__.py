"""Config to recipe, recipe to trained state."""
