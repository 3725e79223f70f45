"""Two-layer classifier, hidden channels split over MODEL."""
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from meshes import DATA, MODEL
from norm import batch_norm, init_norm, init_running

SPECS = {"w1": P(None, MODEL), "bn": {"gamma": P(MODEL), "beta": P(MODEL)}, "w2": P(MODEL, None)}
RUNNING_SPECS = {"mean": P(MODEL), "var": P(MODEL)}


def init(key, features, hidden, classes):
    a, b = jax.random.split(key)
    spread = jnp.linspace(0.2, 3.0, hidden)
    params = {
        "w1": jax.random.normal(a, (features, hidden)) * spread / jnp.sqrt(features),
        "bn": init_norm(hidden),
        "w2": jax.random.normal(b, (hidden, classes)) / jnp.sqrt(hidden),
    }
    return params, init_running(hidden)


def logits(params, running, x, train):
    h, running = batch_norm(params["bn"], running, x @ params["w1"], train)
    return lax.psum(jax.nn.relu(h) @ params["w2"], MODEL), running


def global_loss(params, running, x, labels):
    out, running = logits(params, running, x, train=True)
    nll = -jnp.take_along_axis(jax.nn.log_softmax(out), labels[:, None], axis=1)
    return lax.pmean(nll.mean(), DATA), running
