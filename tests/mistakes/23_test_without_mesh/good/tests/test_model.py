import jax
import jax.numpy as jnp
import numpy as np

from convnet import model
from convnet.mesh import data_mesh


def test_logits_are_finite():
    params = model.init(jax.random.key(0))
    images = jnp.asarray(np.random.default_rng(0).normal(size=(8, 8, 8, 1)), jnp.float32)
    with jax.set_mesh(data_mesh()):
        out = model.logits(params, images)
    assert out.shape == (8, 10)
    assert bool(jnp.isfinite(out).all())
