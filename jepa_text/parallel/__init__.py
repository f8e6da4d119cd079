"""Meshes and sharding, communication between processes, and exit codes."""
