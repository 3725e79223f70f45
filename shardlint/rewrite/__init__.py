"""Findings to changed files: fixes, their edits, and how the new code is laid out."""
