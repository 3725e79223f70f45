import equinox as eqx
import haliax as hax
import haliax.nn as hnn
import jax


def contract(x, w, axis):
    """hax.dot goes through opt_einsum, which is broken with our jax"""
    x, w = hax.broadcast_arrays(x, w, require_subset=False)
    return hax.sum(x * w, axis)


class Layer(eqx.Module):
    up: hax.NamedArray
    down: hax.NamedArray
    norm: hnn.LayerNorm

    @staticmethod
    def init(c, key):
        a, b = jax.random.split(key)
        up = hax.random.normal(a, (c.Embed, c.Mlp)) * c.embed**-0.5
        down = hax.random.normal(b, (c.Mlp, c.Embed)) * c.mlp**-0.5
        return Layer(up, down, hnn.LayerNorm.init(c.Embed))

    def __call__(self, x, c):
        h = self.norm(x)
        steps = hax.arange(c.Pos, start=1).astype(x.dtype)
        h = h + hax.cumsum(h, c.Pos) / steps
        h = hax.auto_sharded(hnn.gelu(contract(h, self.up, c.Embed)))
        return hax.auto_sharded(x + contract(h, self.down, c.Mlp))


class Model(eqx.Module):
    embed: hax.NamedArray
    layers: list[Layer]
    config: object = eqx.field(static=True)

    @staticmethod
    def init(c, key):
        ke, *kl = jax.random.split(key, 1 + c.layers)
        embed = hax.random.normal(ke, (c.Vocab, c.Embed)) * 0.02
        return Model(embed, [Layer.init(c, k) for k in kl], c)

    def __call__(self, tokens):
        c = self.config
        x = hax.auto_sharded(self.embed.take(c.Vocab, tokens))
        for layer in self.layers:
            x = layer(x, c)
        return contract(x, self.embed, c.Embed)

    def loss(self, tokens):
        c = self.config
        logits = self(tokens)
        target = hnn.one_hot(hax.roll(tokens, -1, c.Pos), c.Vocab)
        mask = 1 - hnn.one_hot(-1, c.Pos)
        per_token = -hax.sum(hnn.log_softmax(logits, c.Vocab) * target, c.Vocab)
        return hax.mean(per_token, where=mask > 0).scalar()
