import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
VOCAB, WIDTH, HIDDEN = 2048, 256, 1024
SPECS = {"table": P(), "up": P(None, "model"), "down": P("model"), "head": P()}
SHAPES = {"table": (VOCAB, WIDTH), "up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH), "head": (WIDTH, VOCAB)}


def forward(w, tokens):
    x = w["table"][tokens]
    x = x + jax.nn.relu(x @ w["up"]) @ w["down"]
    return x @ w["head"]


def named(*axes):
    return NamedSharding(mesh, P(*axes))


forward = jax.jit(forward, out_shardings=named("data"))
rng = np.random.default_rng(0)
w = {key: jax.device_put(rng.normal(size=SHAPES[key]).astype(np.float32), named(*SPECS[key])) for key in SPECS}
for _ in range(2):
    tokens = rng.integers(0, VOCAB, (16, 64), dtype=np.int32)
    print(forward(w, jax.device_put(tokens, named("data"))).mean())
