"""Code of the child processes, the only package that imports jax.

Children may run another interpreter than the command does, so nothing here imports a dependency of
shardlint, and nothing outside `shardlint.verify`.
"""
