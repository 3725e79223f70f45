import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: dimension 0 of params\['embed'\] f32\[50257,8\] has size 50257, which is not divisible by 4, the shards of P\('data',?\)
import json

config = json.loads('{"vocab_size": 50257, "width": 8}')  # ok: config = json.loads('{"vocab_size": 50260, "width": 8}')


def place(params):
    embed = NamedSharding(mesh, P("data"))
    return jax.device_put(params["embed"], embed)  # at


place({"embed": jnp.ones((config["vocab_size"], config["width"]))})
