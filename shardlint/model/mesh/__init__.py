"""Meshes, specs and shardings, the contexts they stand in, and the configurations that name them."""
