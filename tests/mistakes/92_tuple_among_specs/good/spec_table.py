from jax.sharding import PartitionSpec as P

# name -> how the weight lies on the ("replica", "shard") mesh
SPECS = {
    "proj_in": P("shard", None),
    "kernels": P(None, "shard", None),
    "proj_out": P(None, "shard"),
    "scale": P(),
}
