import jax
import jax.numpy as jnp


def init(key, n_feat, hidden, n_rounds):
    keys = jax.random.split(key, 2 + 2 * n_rounds)
    g = lambda k, i, o: jax.random.normal(k, (i, o)) / jnp.sqrt(i)
    return {
        "embed": g(keys[0], n_feat, hidden),
        "rounds": [
            {"msg": g(keys[2 + 2 * r], 2 * hidden + 1, hidden), "upd": g(keys[3 + 2 * r], 2 * hidden, hidden)}
            for r in range(n_rounds)
        ],
        "energy": g(keys[1], hidden, 1),
    }


def energy(params, pos, species):
    """pos [n, 3], species [n, n_feat] one-hot; fully connected, softly cut off"""
    h = species @ params["embed"]
    n = pos.shape[0]
    d2 = jnp.sum((pos[:, None] - pos[None]) ** 2, -1)
    w = jnp.exp(-d2) * (1 - jnp.eye(n))
    for r in params["rounds"]:
        pair = jnp.concatenate(
            [jnp.broadcast_to(h[:, None], (n, n, h.shape[-1])), jnp.broadcast_to(h[None], (n, n, h.shape[-1])), d2[..., None]],
            -1,
        )
        m = jnp.einsum("ij,ijh->ih", w, jax.nn.silu(pair @ r["msg"]))
        h = h + jax.nn.silu(jnp.concatenate([h, m], -1) @ r["upd"])
    return jnp.sum(h @ params["energy"])


def loss(params, pos, species, target):
    pred = jax.vmap(energy, in_axes=(None, 0, 0))(params, pos, species)
    return jnp.mean((pred - target) ** 2)
