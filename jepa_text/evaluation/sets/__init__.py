"""What a task is made of: texts, what people said of them, and their validation part."""
