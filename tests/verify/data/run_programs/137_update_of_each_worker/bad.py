"""Workers of a policy gradient on pmap: each draws its own episodes, and the update is a helper of its own."""
import functools

import jax
import jax.numpy as jnp
import optax

FEATURES, ACTIONS, WIDTH, EPISODES = 24, 6, 512, 32
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))


def init(key):
    first, second = jax.random.split(key)
    return {
        "hidden": jax.random.normal(first, (FEATURES, WIDTH)) * FEATURES**-0.5,
        "logits": jax.random.normal(second, (WIDTH, ACTIONS)) * WIDTH**-0.5,
    }


def loss_of(params, key):
    seen, acted = jax.random.split(key)
    states = jax.random.normal(seen, (EPISODES, FEATURES))
    logits = jnp.tanh(states @ params["hidden"]) @ params["logits"]
    actions = jax.random.categorical(acted, jax.lax.stop_gradient(logits))
    reward = jnp.take_along_axis(states, actions[:, None], axis=1)[:, 0]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), actions[:, None], axis=1)[:, 0]
    return -(chosen * reward).mean()


def improve(params, moments, grads):
    updates, moments = tx.update(grads, moments, params)  # here SL402
    return optax.apply_updates(params, updates), moments


@functools.partial(jax.pmap, axis_name="workers")
def start(key):
    params = init(jax.random.key(3))
    return params, tx.init(params), key


@functools.partial(jax.pmap, axis_name="workers", donate_argnums=(0, 1, 2))
def round_of(params, moments, key):
    key, mine = jax.random.split(key)
    loss, grads = jax.value_and_grad(loss_of)(params, mine)
    params, moments = improve(params, moments, grads)
    return params, moments, key, jax.lax.pmean(loss, "workers")


params, moments, keys = start(jax.random.split(jax.random.key(4), jax.local_device_count()))
for _ in range(3):
    params, moments, keys, loss = round_of(params, moments, keys)
print(float(loss[0]))
