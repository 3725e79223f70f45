"""Rules about meshes, specs and mesh contexts."""
