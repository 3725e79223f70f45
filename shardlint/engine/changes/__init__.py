"""What a change does: to the files that rest on it, and against the revision before it."""
