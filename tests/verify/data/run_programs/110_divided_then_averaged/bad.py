"""A policy-gradient learner: gradients of all devices are averaged."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

OBS, ACT, HIDDEN, ENVS, UNROLL = 128, 16, 1024, 64, 8
N = jax.local_device_count()


def net(params, obs):
    h = jnp.tanh(obs @ params["w0"] + params["b0"])
    h = jnp.tanh(h @ params["w1"] + params["b1"])
    return h @ params["pi"], (h @ params["v"])[..., 0]


def make(key):
    ks = jax.random.split(key, 4)
    return {
        "w0": jax.random.normal(ks[0], (OBS, HIDDEN)) * 0.05, "b0": jnp.zeros(HIDDEN),
        "w1": jax.random.normal(ks[1], (HIDDEN, HIDDEN)) * 0.03, "b1": jnp.zeros(HIDDEN),
        "pi": jax.random.normal(ks[2], (HIDDEN, ACT)) * 0.01, "v": jax.random.normal(ks[3], (HIDDEN, 1)) * 0.01,
    }


def loss_fn(params, batch):
    logits, value = net(params, batch["obs"])
    logp = jax.nn.log_softmax(logits)
    chosen = jnp.take_along_axis(logp, batch["act"][..., None], -1)[..., 0]
    adv = batch["ret"] - value
    pg = -jnp.sum(chosen * jax.lax.stop_gradient(adv))
    vf = 0.5 * jnp.sum(adv**2)
    return (pg + vf) / (ENVS * UNROLL)


tx = optax.adam(3e-4)


def update(params, opt, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    grads = jax.lax.pmean(grads, axis_name="i")  # here
    updates, opt = tx.update(grads, opt)
    return optax.apply_updates(params, updates), opt, jax.lax.psum(loss, "i")


def rollout(rng):
    n = ENVS // N
    return {
        "obs": rng.normal(size=(N, UNROLL, n, OBS)).astype(np.float32),
        "act": rng.integers(0, ACT, (N, UNROLL, n)),
        "ret": rng.normal(size=(N, UNROLL, n)).astype(np.float32),
    }


def main():
    params = make(jax.random.PRNGKey(0))
    opt = tx.init(params)
    devices = jax.local_devices()
    params, opt = jax.device_put_replicated((params, opt), devices) if hasattr(jax, "device_put_replicated") else jax.tree.map(lambda x: jnp.broadcast_to(x, (N, *x.shape)), (params, opt))
    learn = jax.pmap(update, axis_name="i", donate_argnums=(0, 1))
    rng = np.random.default_rng(0)
    for it in range(4):
        params, opt, loss = learn(params, opt, rollout(rng))
        print(it, float(loss[0]))


if __name__ == "__main__":
    main()
