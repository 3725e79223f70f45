"""Rules about Equinox: filter_jit, filter_shard and what they are mistaken for."""
