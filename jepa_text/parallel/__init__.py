"""Devices and their speed, meshes, sharding, processes, and exit codes."""
