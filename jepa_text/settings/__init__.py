"""Configs: loading, settings, validation against dataclasses, and display."""
