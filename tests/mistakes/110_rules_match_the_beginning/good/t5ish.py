import flax.linen as nn


class FFN(nn.Module):
    hidden: int

    @nn.compact
    def __call__(self, x):
        h = nn.relu(nn.Dense(self.hidden, use_bias=False, name="wi")(x))
        return nn.Dense(x.shape[-1], use_bias=False, name="wo")(h)


class EncoderLayer(nn.Module):
    heads: int
    hidden: int

    @nn.compact
    def __call__(self, x):
        y = nn.RMSNorm(name="norm_att")(x)
        x = x + nn.MultiHeadDotProductAttention(self.heads, use_bias=False, name="att")(y)
        return x + FFN(self.hidden, name="ffn")(nn.RMSNorm(name="norm_ffn")(x))


class TextEncoder(nn.Module):
    vocab: int = 256
    dim: int = 32
    depth: int = 2

    @nn.compact
    def __call__(self, ids):
        emb = nn.Embed(self.vocab, self.dim, name="shared")
        x = emb(ids)
        for i in range(self.depth):
            x = EncoderLayer(4, 128, name=f"layers_{i}")(x)
        return emb.attend(nn.RMSNorm(name="final")(x))
