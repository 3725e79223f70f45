"""A variational autoencoder trained by pmap, in the style of haiku: params in nested dicts, transform by hand."""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

AXIS = "devices"


class State(NamedTuple):
    params: dict
    opt_state: optax.OptState
    rng: jax.Array


def linear(params, name, x):
    return x @ params[name]["w"] + params[name]["b"]


def init(rng, sizes):
    params = {}
    for name, (m, n) in sizes.items():
        rng, key = jax.random.split(rng)
        params[name] = {"w": jax.random.truncated_normal(key, -2, 2, (m, n)) / np.sqrt(m), "b": jnp.zeros(n)}
    return params


SIZES = {
    "encoder/hidden": (784, 1024),
    "encoder/mean": (1024, 64),
    "encoder/logvar": (1024, 64),
    "decoder/hidden": (64, 1024),
    "decoder/out": (1024, 784),
}


def elbo(params, rng, images):
    h = jax.nn.relu(linear(params, "encoder/hidden", images))
    mean, logvar = linear(params, "encoder/mean", h), linear(params, "encoder/logvar", h)
    z = mean + jnp.exp(0.5 * logvar) * jax.random.normal(rng, mean.shape)
    logits = linear(params, "decoder/out", jax.nn.relu(linear(params, "decoder/hidden", z)))
    ll = -jnp.sum(jnp.maximum(logits, 0) - logits * images + jnp.log1p(jnp.exp(-jnp.abs(logits))), -1)
    kl = 0.5 * jnp.sum(jnp.exp(logvar) + mean**2 - 1 - logvar, -1)
    return -jnp.mean(ll - kl), {"log_likelihood": jnp.mean(ll), "kl": jnp.mean(kl)}


class Experiment:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.update = jax.pmap(self._update, axis_name=AXIS, donate_argnums=0)

    def initial_state(self, seed):
        params = init(jax.random.PRNGKey(seed), SIZES)
        count = jax.local_device_count()
        copy = functools.partial(jax.tree.map, lambda x: jnp.broadcast_to(x, (count, *x.shape)))
        keys = jax.random.split(jax.random.PRNGKey(seed + 1), count)
        spread = jax.pmap(lambda p, o, k: State(p, o, k))
        return spread(copy(params), copy(self.optimizer.init(params)), keys)

    def _update(self, state, images):
        rng, key = jax.random.split(state.rng)
        grad_fn = jax.value_and_grad(elbo, has_aux=True)
        (loss, stats), grads = grad_fn(state.params, key, images)
        grads = jax.lax.pmean(grads, AXIS)
        scalars = jax.lax.pmean({"loss": loss, **stats}, AXIS)
        updates, opt_state = self.optimizer.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        return State(params, opt_state, rng), scalars


def batches(count, per_device=16):
    rng = np.random.default_rng(3)
    for _ in range(count):
        yield (rng.random((jax.local_device_count(), per_device, 784)) < 0.3).astype(np.float32)


def get_first(tree):
    return jax.tree.map(lambda x: x[0], tree)


def main():
    experiment = Experiment(optax.adam(1e-3))
    state = experiment.initial_state(7)
    for step, images in enumerate(batches(3)):
        state, scalars = experiment.update(state, images)
        log = jax.device_get(get_first(scalars))
        print(step, {name: round(float(value), 3) for name, value in log.items()})


if __name__ == "__main__":
    main()
