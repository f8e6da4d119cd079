"""What a config may say: a name is a file, a number has a range."""
