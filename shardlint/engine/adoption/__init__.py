"""Baselines: the findings that a project has and accepts."""
