import jax
import jax.numpy as jnp
import numpy as np

from convnet import model


def test_logits_are_finite():
    params = model.init(jax.random.key(0))
    images = jnp.asarray(np.random.default_rng(0).normal(size=(8, 8, 8, 1)), jnp.float32)
    out = model.logits(params, images)  # mistake: spec-needs-mesh
    assert out.shape == (8, 10)
    assert bool(jnp.isfinite(out).all())
