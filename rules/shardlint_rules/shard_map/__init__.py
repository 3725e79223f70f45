"""Rules about shard_map, pmap and collectives."""
