"""Rules about jit, placement and donation."""
