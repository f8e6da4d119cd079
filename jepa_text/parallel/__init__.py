"""Devices and processes: where arrays live, who takes part, how a process ends."""
