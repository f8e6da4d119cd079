"""Members of a grid: one fine-tuning each, trained by one program."""
