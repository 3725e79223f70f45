"""Linear-in-features regression over several processes."""
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from config import RunConfig
from sampler import Sampler, dataset


def join_cluster():
    if os.environ.get("COORDINATOR"):
        jax.distributed.initialize(
            os.environ["COORDINATOR"],
            num_processes=int(os.environ["NUM_PROCESSES"]),
            process_id=int(os.environ["PROCESS_ID"]),
        )


def expand(x):
    return jnp.concatenate([x, x**2, jnp.tanh(x)], axis=-1)


def loss(params, x, y):
    return jnp.mean((expand(x) @ params["w"] + params["b"] - y) ** 2)


def make_step(lr):
    @jax.jit
    def step(params, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), value

    return step


def main():
    join_cluster()
    cfg = RunConfig()
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    rows = NamedSharding(mesh, P("batch"))

    def create():
        return {"w": jnp.zeros((3 * cfg.features,)), "b": jnp.zeros(())}

    params = jax.jit(create, out_shardings=NamedSharding(mesh, P()))()
    step = make_step(cfg.lr)
    x, y = dataset(cfg.dataset_size, cfg.features)
    sampler = Sampler(cfg.dataset_size, cfg.per_process_batch)
    seen = 0
    for epoch in range(cfg.epochs):
        total = 0.0
        for i in range(cfg.steps_per_epoch):
            pick = sampler[epoch * cfg.steps_per_epoch + i]
            bx = jax.make_array_from_process_local_data(rows, x[pick])
            by = jax.make_array_from_process_local_data(rows, y[pick])
            params, value = step(params, bx, by)
            total += float(value)
            seen += bx.shape[0]
        if jax.process_index() == 0:
            print(f"epoch {epoch} loss {total / cfg.steps_per_epoch:.5f} examples {seen}", flush=True)


if __name__ == "__main__":
    main()
