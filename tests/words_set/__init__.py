"""A data set for tests, as a package: tensorflow_datasets looks for files beside it."""
