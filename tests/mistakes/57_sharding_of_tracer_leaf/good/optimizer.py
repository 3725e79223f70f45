from dataclasses import dataclass

from treeops import add, keep_sharding, scale


@dataclass(frozen=True)
class Momentum:
    lr: float = 0.1
    beta: float = 0.9

    def init(self, params):
        return scale(params, 0.0)

    def apply(self, params, grads, velocity, shardings):
        velocity = add(scale(velocity, self.beta), grads)
        new = add(params, scale(velocity, -self.lr))
        return keep_sharding(new, shardings), velocity
