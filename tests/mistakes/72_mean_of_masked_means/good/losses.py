import jax
import jax.numpy as jnp


def token_cross_entropy(logits, targets):
    logp = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.take_along_axis(logp, targets[..., None], axis=-1)[..., 0]


def masked_loss(logits, targets, mask):
    """Mean loss of the tokens that are not padding."""
    per_token = token_cross_entropy(logits, targets) * mask
    return per_token.sum() / jnp.maximum(mask.sum(), 1.0)
