import flax.linen as nn


class TabNet(nn.Module):
    width: int = 64
    depth: int = 2

    @nn.compact
    def __call__(self, x):
        for _ in range(self.depth):
            g = nn.Dense(self.width)(x)
            x = nn.Dense(self.width)(x) * nn.sigmoid(g)
        return nn.Dense(1)(x)[..., 0]
