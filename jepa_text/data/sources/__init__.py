"""One corpus per file: make(split, **section) gives documents."""
