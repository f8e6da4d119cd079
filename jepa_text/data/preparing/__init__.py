"""Units of a corpus to rows, by who is free."""
