"""Measures of representations: functions of arrays, and nothing else."""
