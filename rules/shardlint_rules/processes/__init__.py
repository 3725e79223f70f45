"""SL8: several processes, and the environment they start in."""
