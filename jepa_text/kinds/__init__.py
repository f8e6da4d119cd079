"""What a task asks of an encoder: rows of texts, a head, a loss, and its answers."""
