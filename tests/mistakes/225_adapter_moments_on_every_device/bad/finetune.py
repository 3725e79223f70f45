from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import base as base_lib
import lora


def init_optimizer(tx, adapters, mesh):
    return jax.jit(tx.init, out_shardings=NamedSharding(mesh, P()))(adapters)  # mistake: optimizer-state-replicated


def main(steps=3, cfg=lora.LoraConfig()):
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("fsdp", "tp"))
    frozen = base_lib.load_base(mesh)
    adapters = lora.init(cfg, frozen, mesh, jax.random.key(1))
    tx = optax.adamw(1e-3)
    opt = init_optimizer(tx, adapters, mesh)
    first = opt

    @partial(jax.jit, donate_argnums=0)
    def step(adapters, opt, frozen, x, y):
        def loss(ad):
            return jnp.mean((base_lib.forward(lora.merge(cfg, frozen, ad), x) - y) ** 2)

        v, g = jax.value_and_grad(loss)(adapters)
        u, opt = tx.update(g, opt, adapters)
        return optax.apply_updates(adapters, u), opt, v

    rng = np.random.default_rng(0)
    for _ in range(steps):
        x = rng.normal(size=(16, 64)).astype(np.float32)
        x, y = jax.device_put((x, -x), NamedSharding(mesh, P("fsdp")))
        adapters, opt, v = step(adapters, opt, frozen, x, y)
    print("loss", float(v))
    return adapters, first


if __name__ == "__main__":
    main()
