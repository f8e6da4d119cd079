"""Configs: loading, overrides, validation against dataclasses, and display."""
