import equinox as eqx
import haliax as hax
import jax

from nano.config import ModelConfig


class Bigram(eqx.Module):
    """Predicts the next token from the current one."""

    embed: hax.NamedArray
    config: ModelConfig = eqx.field(static=True)

    @staticmethod
    def init(config: ModelConfig, *, key: jax.Array) -> "Bigram":
        return Bigram(hax.random.normal(key, (config.Embed, config.Vocab)) * 0.02, config)

    def __call__(self, tokens: hax.NamedArray) -> hax.NamedArray:
        x = self.embed.take(self.config.Vocab, tokens)
        return hax.sum(x.broadcast_axis(self.config.Vocab) * self.embed, axis=self.config.Embed)
