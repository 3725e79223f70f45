import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.linen import with_logical_constraint as wlc


def kernel(*names):
    return nn.with_logical_partitioning(nn.initializers.lecun_normal(), names)


class MoE(nn.Module):
    """Dense-dispatch top-1 mixture (fine up to a few dozen experts)."""

    experts: int
    hidden: int
    capacity: float = 1.25

    @nn.compact
    def __call__(self, x):
        g, s, d = x.shape
        router = nn.Dense(self.experts, use_bias=False, kernel_init=kernel("embed", "unsharded"), name="router")
        probs = jax.nn.softmax(router(x))
        gate, index = probs.max(-1), probs.argmax(-1)
        cap = int(self.capacity * s / self.experts) + 1
        onehot = jax.nn.one_hot(index, self.experts)
        slot = (jnp.cumsum(onehot, 1) * onehot - onehot).sum(-1).astype(jnp.int32)
        dispatch = onehot[..., None] * jax.nn.one_hot(slot, cap)[:, :, None, :]  # g s e c

        xe = jnp.einsum("gsec,gsd->egcd", dispatch, x)
        xe = wlc(xe, ("expert", "batch_noexp", None, "embed"))
        wi = self.param("wi", kernel("expert", "embed", "mlp"), (self.experts, d, self.hidden))
        wo = self.param("wo", kernel("expert", "mlp", "embed"), (self.experts, self.hidden, d))
        h = wlc(jax.nn.gelu(jnp.einsum("egcd,edh->egch", xe, wi)), ("expert", "batch_noexp", None, "mlp"))
        ye = wlc(jnp.einsum("egch,ehd->egcd", h, wo), ("expert", "batch_noexp", None, "embed"))
        y = jnp.einsum("gsec,egcd->gsd", dispatch, ye) * gate[..., None]
        balance = self.experts * (onehot.mean((0, 1)) * probs.mean((0, 1))).sum()
        return wlc(y, ("batch", None, "embed")), balance


class Classifier(nn.Module):
    vocab: int
    dim: int
    experts: int
    layers: int
    classes: int

    @nn.compact
    def __call__(self, tokens):
        emb = nn.Embed(self.vocab, self.dim, embedding_init=kernel("vocab", "embed"))
        x, aux = emb(tokens), 0.0
        for i in range(self.layers):
            y, balance = MoE(self.experts, 4 * self.dim, name=f"moe_{i}")(nn.LayerNorm(use_bias=False, use_scale=False)(x))
            x, aux = x + y, aux + balance
        return nn.Dense(self.classes, use_bias=False, kernel_init=kernel("embed", "unsharded"))(x.mean(1)), aux
