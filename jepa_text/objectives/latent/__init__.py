"""What the objectives that predict latents share."""
