"""Rules about meshes, specs and contexts."""
