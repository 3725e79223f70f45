"""Sharding in types: an explicit mesh, a gated MLP, results of products say how they lie."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit, AxisType.Explicit))
D, H, LAYERS = 512, 2048, 3


def block(p, x):
    gate = jnp.einsum("bd,dh->bh", x, p["gate"])
    up = jnp.einsum("bd,dh->bh", x, p["up"])
    h = jax.nn.silu(gate) * up
    return x + jnp.einsum("bh,hd->bd", h, p["down"], out_sharding=P("data", None))


def loss_fn(params, x, y):
    x = jnp.einsum("bi,id->bd", x, params["embed"], out_sharding=P("data", None))
    for p in params["layers"]:
        x = block(p, x)
    logits = x @ params["head"]
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * y, -1))




@jax.jit
def step(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


def init(key):
    ke, kh, *kl = jax.random.split(key, 2 + LAYERS)
    put = lambda k, shape, spec: jax.device_put(jax.random.normal(k, shape) * shape[0] ** -0.5, jax.NamedSharding(mesh, spec))
    layers = []
    for k in kl:
        a, b, c = jax.random.split(k, 3)
        layers.append({"gate": put(a, (D, H), P(None, "model")), "up": put(b, (D, H), P(None, "model")), "down": put(c, (H, D), P("model", None))})
    return {"embed": put(ke, (64, D), P(None, None)), "head": put(kh, (D, 128), P(None, None)), "layers": layers}


def main():
    rng = np.random.default_rng(0)
    with jax.set_mesh(mesh):
        params = init(jax.random.key(0))
        for i in range(4):
            x = jax.device_put(rng.normal(size=(64, 64)).astype(np.float32), P("data", None))
            y = jax.device_put(np.eye(128, dtype=np.float32)[rng.integers(0, 128, 64)], P("data", None))
            params, loss = step(params, x, y)
            print(i, float(loss))


if __name__ == "__main__":
    main()
