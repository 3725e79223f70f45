"""Switch layer: the experts are spread over a mesh axis, each device works off the tokens of its own experts."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("data", "expert"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
D, H, EXPERTS = 256, 1024, 8


@partial(jax.shard_map, mesh=mesh, in_specs=(P("data"), P(), P("expert"), P("expert")), out_specs=P("data"))
def moe(x, router, w_in, w_out):
    probs = jax.nn.softmax(x @ router)
    choice = jnp.argmax(probs, -1)
    weight = jnp.max(probs, -1)
    local = w_in.shape[0]
    onehot = jax.nn.one_hot(choice, local)  # here
    mine = jnp.einsum("td,te->etd", x, onehot)
    h = jax.nn.gelu(jnp.einsum("etd,edh->eth", mine, w_in))
    y = jnp.einsum("eth,ehd,te->td", h, w_out, onehot)
    return jax.lax.psum(y, "expert") * weight[:, None]


def loss_fn(params, x, y):
    h = x @ params["inp"]
    h = h + moe(h, params["router"], params["w_in"], params["w_out"])
    return jnp.mean((h @ params["out"] - y) ** 2)


def main():
    ks = jax.random.split(jax.random.key(0), 5)
    n = lambda k, *s: jax.random.normal(k, s) * s[-2] ** -0.5
    params = {"inp": n(ks[0], D, D), "router": n(ks[1], D, EXPERTS), "w_in": n(ks[2], EXPERTS, D, H), "w_out": n(ks[3], EXPERTS, H, D), "out": n(ks[4], D, D)}
    spec = {"inp": P(), "router": P(), "w_in": P("expert"), "w_out": P("expert"), "out": P()}
    params = {k: jax.device_put(v, NamedSharding(mesh, spec[k])) for k, v in params.items()}
    tx = optax.adam(1e-3)
    opt = tx.init(params)

    @jax.jit
    def step(params, opt, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        up, opt = tx.update(grads, opt)
        return optax.apply_updates(params, up), opt, loss

    rng = np.random.default_rng(0)
    for i in range(4):
        x = rng.normal(size=(128, D)).astype(np.float32)
        xb, yb = jax.device_put((x, np.cos(x)), NamedSharding(mesh, P("data")))
        params, opt, loss = step(params, opt, xb, yb)
        print(i, float(loss))


if __name__ == "__main__":
    main()
