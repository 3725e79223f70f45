import flax.linen as nn
from flax.linen import with_logical_constraint as constrain


class GatedMLP(nn.Module):
    hidden: int = 128

    @nn.compact
    def __call__(self, x):
        d = x.shape[-1]
        gate = nn.Dense(self.hidden, use_bias=False, name="gate")(x)
        up = nn.Dense(self.hidden, use_bias=False, name="up")(x)
        h = constrain(nn.silu(gate) * up, ("batch", "seq", "mlp"))
        return constrain(nn.Dense(d, use_bias=False, name="down")(h), ("batch", "seq", "embed"))


class Tagger(nn.Module):
    vocab: int = 64
    dim: int = 32
    tags: int = 8
    depth: int = 2

    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(self.vocab, self.dim)(ids)
        for _ in range(self.depth):
            x = x + GatedMLP()(nn.RMSNorm()(x))
        return constrain(nn.Dense(self.tags, name="out")(x), ("batch", "seq", None))
