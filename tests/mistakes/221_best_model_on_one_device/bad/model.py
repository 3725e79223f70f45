import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

MESH = Mesh(np.array(jax.devices()).reshape(2, 4), ("dp", "mp"))


class DeepSet(eqx.Module):
    phi: eqx.nn.MLP
    rho: eqx.nn.MLP

    def __init__(self, key):
        a, b = jax.random.split(key)
        self.phi = eqx.nn.MLP(4, 64, 64, 1, key=a)
        self.rho = eqx.nn.MLP(64, 1, 64, 1, key=b)

    def __call__(self, s):
        return self.rho(jax.vmap(self.phi)(s).sum(0))[0]


def create(key):
    model = DeepSet(key)

    def put(x):
        wide = x.ndim == 2 and x.shape[0] % MESH.shape["mp"] == 0
        return jax.device_put(x, NamedSharding(MESH, P("mp", None) if wide else P()))

    return jax.tree.map(lambda x: put(x) if eqx.is_array(x) else x, model)


def data(rng, n):
    s = rng.normal(size=(n, 5, 4)).astype(np.float32)
    return jax.device_put((s, s.max((1, 2))), NamedSharding(MESH, P("dp")))
