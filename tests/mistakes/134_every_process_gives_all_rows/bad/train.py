"""Contrastive pretraining of two linear towers with in-batch negatives."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from cluster import bootstrap
from pipeline import Pipeline


def views(n, dim, seed=0):
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, 6))
    mix = rng.normal(size=(2, 6, dim))
    a, b = (latent @ m + 0.3 * rng.normal(size=(n, dim)) for m in mix)
    return a.astype(np.float32), b.astype(np.float32)


def normalise(z):
    return z / jnp.linalg.norm(z, axis=-1, keepdims=True)


def contrastive(params, a, b, temperature=0.2):
    za, zb = normalise(a @ params["a"]), normalise(b @ params["b"])
    logits = za @ zb.T / temperature
    labels = jnp.arange(len(logits))
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def main(steps=40, batch=64, dim=16, width=8):
    process = bootstrap()
    mesh = Mesh(np.array(jax.devices()), ("pairs",))
    tx = optax.adam(0.02)

    def create(key):
        ka, kb = jax.random.split(key)
        shape = (dim, width)
        params = {"a": jax.random.normal(ka, shape), "b": jax.random.normal(kb, shape)}
        return params, tx.init(params)

    replicated = NamedSharding(mesh, P())
    params, opt_state = jax.jit(create, out_shardings=replicated)(jax.random.key(0))

    @jax.jit
    def step(params, opt_state, a, b):
        value, grads = jax.value_and_grad(contrastive)(params, a, b)
        updates, opt_state = tx.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state, value

    source = Pipeline(views(1024, dim), batch, NamedSharding(mesh, P("pairs")))
    for i, (a, b) in zip(range(steps), source):
        params, opt_state, value = step(params, opt_state, a, b)
        if i % 10 == 0 and process.chief:
            print(f"step {i} batch {a.shape[0]} loss {float(value):.5f}", flush=True)
    if process.chief:
        print(f"final loss {float(value):.5f}", flush=True)


if __name__ == "__main__":
    main()
