from jax.sharding import PartitionSpec as P

BATCH = {"inputs": P("data"), "targets": P("data"), "mask": P("data")}
PARAMS = {"embed": P(), "out": P()}
