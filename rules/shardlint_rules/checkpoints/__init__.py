"""Rules about checkpoints: saving and restoring."""
