"""The bodies of `shard_map` and `pmap`: what differs from device to device."""
