"""Rules about names that releases of jax moved, deprecated or removed."""
