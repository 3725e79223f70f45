import dataclasses

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from dpo import policy
from dpo.config import DpoConfig
from dpo.step import build


def main(**overrides):
    cfg = dataclasses.replace(DpoConfig(), **overrides)
    mesh = Mesh(jax.devices(), ("data",))
    replicated = NamedSharding(mesh, P())
    params = jax.device_put(policy.init(jax.random.key(0), cfg), replicated)
    reference = jax.tree.map(jnp.copy, params)
    step = build(cfg)
    for i in range(cfg.steps):
        key = jax.random.key(i)
        tokens = jax.random.randint(key, (2, 8, 6), 0, cfg.vocab)
        batch = {"chosen": tokens[0], "rejected": tokens[1]}
        batch = jax.device_put(batch, NamedSharding(mesh, P("data")))
        params, loss = step(params, reference, batch)
        print(f"step {i} loss {float(loss):.4f}")
    print("finished")


if __name__ == "__main__":
    main()
