"""A tensor parallel MLP whose input is normalised inside of the region."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("data", "model"))
D, F = 1024, 4096


def rms_norm(x, scale):
    var = lax.pmean(jnp.mean(jnp.square(x), axis=-1, keepdims=True), "model")
    return x * lax.rsqrt(var + 1e-6) * scale


def block(x, scale, up, down):
    h = rms_norm(x, scale)
    h = lax.all_gather(h, "model", axis=1, tiled=True)
    h = jax.nn.silu(h @ up) @ down
    return x + lax.psum_scatter(h, "model", scatter_dimension=1, tiled=True)


block = jax.shard_map(
    block,
    mesh=mesh,
    in_specs=(P("data", "model"), P("model"), P(None, "model"), P("model", None)),
    out_specs=P("data", "model"),
)


def init(key, layers):
    def layer(key):
        a, b = jax.random.split(key)
        return {
            "scale": jnp.ones(D),
            "up": jax.random.normal(a, (D, F)) / D**0.5,
            "down": jax.random.normal(b, (F, D)) / F**0.5,
        }

    return [layer(k) for k in jax.random.split(key, layers)]


def spec(path, _):
    return NamedSharding(mesh, {"scale": P("model"), "up": P(None, "model"), "down": P("model")}[path[-1].key])


params = init(jax.random.key(0), 3)
params = jax.device_put(params, jax.tree_util.tree_map_with_path(spec, params))


@jax.jit
def train_step(params, x, y):
    def loss_fn(params):
        h = x
        for p in params:
            h = block(h, p["scale"], p["up"], p["down"])
        return jnp.mean((h - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), loss


for seed in range(3):
    x, y = jax.random.normal(jax.random.key(seed), (2, 64, D))
    x, y = jax.device_put((x, y), NamedSharding(mesh, P("data", "model")))
    params, loss = train_step(params, x, y)
    print(loss)
