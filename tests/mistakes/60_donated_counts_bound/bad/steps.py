import jax
import jax.numpy as jnp

from net import apply


def sgd_step(hparams, params, batch):
    """One step; hparams is static and bound by the caller."""

    def loss_fn(p):
        x, y = batch
        logp = jax.nn.log_softmax(apply(p, x))
        nll = -jnp.take_along_axis(logp, y[:, None], axis=1).mean()
        l2 = sum(jnp.sum(layer["w"] ** 2) for layer in p)
        return nll + hparams.l2 * l2

    loss, grads = jax.value_and_grad(loss_fn)(params)
    params = jax.tree.map(lambda p, g: p - hparams.lr * g, params, grads)
    return params, loss
