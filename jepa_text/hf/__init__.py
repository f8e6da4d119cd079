"""Conversion between Hugging Face model folders and models of this package."""
