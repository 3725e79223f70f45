from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from decoder import Spec, decode_one, empty_cache, init, weight_specs


class Generator:
    def __init__(self, spec=Spec(), dp=2, tp=4):
        self.spec = spec
        self.mesh = Mesh(np.array(jax.devices()).reshape(dp, tp), ("dp", "tp"))
        shard = {k: NamedSharding(self.mesh, p) for k, p in weight_specs().items()}
        self.params = jax.device_put(init(jax.random.key(0), spec), shard)
        self._decode = jax.jit(partial(decode_one, s=spec), donate_argnums=1)

    def __call__(self, first, n):
        token = jax.device_put(jnp.asarray(first), NamedSharding(self.mesh, P("dp")))
        cache = empty_cache(self.spec, len(first), self.mesh)
        out = [token]
        for _ in range(n):
            logits, cache = self._decode(self.params, cache, token)
            token = logits.argmax(-1)
            out.append(token)
        return np.stack([np.asarray(t) for t in out], 1)


if __name__ == "__main__":
    print(Generator()([1, 2, 3, 4], 6))
