import flax.linen as nn

from config import Config
from layout import Layout


class MLP(nn.Module):
    cfg: Config
    layout: Layout

    @nn.compact
    def __call__(self, x):
        for i in range(self.cfg.depth):
            h = nn.Dense(self.cfg.hidden, name=f"up_{i}")(x)
            h = self.layout.place_hidden(nn.gelu(h))
            x = x + nn.Dense(self.cfg.width, name=f"down_{i}")(h)
        return nn.Dense(self.cfg.classes, name="head")(x)
