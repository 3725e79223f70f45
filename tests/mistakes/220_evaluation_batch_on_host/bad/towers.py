import jax
import jax.numpy as jnp
import optax


def init(rng, cfg):
    a, b = jax.random.split(rng)
    w = cfg["width"]
    return {
        "query": jax.random.normal(a, (cfg["query_dim"], w)) / cfg["query_dim"] ** 0.5,
        "doc": jax.random.normal(b, (cfg["doc_dim"], w)) / cfg["doc_dim"] ** 0.5,
        "temp": jnp.array(10.0),
    }


def scores(params, batch):
    def unit(v):
        return v / (jnp.linalg.norm(v, axis=-1, keepdims=True) + 1e-6)

    q = unit(jnp.tanh(batch["q"] @ params["query"]))
    d = unit(jnp.tanh(batch["d"] @ params["doc"]))
    return params["temp"] * q @ d.T


def contrastive(params, batch):
    s = scores(params, batch)
    lab = jnp.arange(s.shape[0])
    ce = optax.softmax_cross_entropy_with_integer_labels
    return (ce(s, lab).mean() + ce(s.T, lab).mean()) / 2


def recall_at_1(params, batch):
    s = scores(params, batch)
    return (s.argmax(-1) == jnp.arange(s.shape[0])).mean()
