"""FSDP transformer under jit: the table of embeddings is split over its width, as the other weights are over their first dimension."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))
V, D, H, L = 2048, 512, 2048, 2
WHERE = {"embed": P(None, "fsdp"), "up": P("fsdp", None), "down": P(None, "fsdp"), "head": P("fsdp", None)}


def constrain(x):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("fsdp")))


def forward(params, tokens):
    x = jnp.take(params["embed"], tokens, axis=0)  # here
    for layer in params["layers"]:
        x = x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]
    return x @ params["head"]


def init(key):
    n = lambda k, *s: jax.random.normal(k, s) * s[0] ** -0.5
    ke, kh, *kl = jax.random.split(key, 2 + 2 * L)
    layers = [{"up": n(kl[2 * i], D, H), "down": n(kl[2 * i + 1], H, D)} for i in range(L)]
    return {"embed": n(ke, V, D), "layers": layers, "head": n(kh, D, V)}


def shardings(tree):
    return jax.tree_util.tree_map_with_path(lambda p, x: NamedSharding(mesh, WHERE.get(getattr(p[-1], "key", ""), P()) if x.ndim else P()), tree)


def main():
    tx = optax.adamw(1e-3)
    make = lambda k: (lambda p: (p, tx.init(p)))(init(k))
    where = shardings(jax.eval_shape(make, jax.random.key(0)))
    params, opt = jax.jit(make, out_shardings=where)(jax.random.key(0))

    def step(params, opt, tokens):
        def loss_fn(p):
            return optax.softmax_cross_entropy_with_integer_labels(forward(p, tokens[:, :-1]), tokens[:, 1:]).mean()
        loss, grads = jax.value_and_grad(loss_fn)(params)
        updates, opt = tx.update(grads, opt, params)
        return optax.apply_updates(params, updates), opt, loss

    step = jax.jit(step, donate_argnums=(0, 1), out_shardings=(*where, NamedSharding(mesh, P())))
    rng = np.random.default_rng(0)
    for i in range(3):
        tokens = jax.device_put(rng.integers(0, V, (16, 129)), NamedSharding(mesh, P("fsdp")))
        params, opt, loss = step(params, opt, tokens)
        print(i, float(loss))


if __name__ == "__main__":
    main()
