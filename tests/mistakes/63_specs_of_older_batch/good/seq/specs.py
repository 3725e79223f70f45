from jax.sharding import PartitionSpec as P

BATCH = {"inputs": P("data"), "targets": P("data"), "weights": P("data")}
PARAMS = {"embed": P(), "out": P()}
