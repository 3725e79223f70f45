import argparse
from functools import partial

import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import gnn
from data import Molecules


def make_step(mesh, tx):
    @partial(jax.jit, donate_argnums=(0, 1))
    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P(), P("mol")),
        out_specs=(P(), P(), P()),
        check_vma=False,
    )
    def step(params, opt_state, batch):
        loss, grads = jax.value_and_grad(gnn.loss)(params, *batch)
        loss, grads = jax.lax.pmean((loss, grads), "mol")
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    return step


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--hidden", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=10)
    args = ap.parse_args()

    mesh = Mesh(np.array(jax.devices()), ("mol",))
    everywhere = NamedSharding(mesh, P())
    tx = optax.chain(optax.clip_by_global_norm(10.0), optax.adam(1e-3))
    params = jax.device_put(gnn.init(jax.random.key(0), 3, args.hidden, 2), everywhere)
    opt_state = jax.device_put(tx.init(params), everywhere)
    step = make_step(mesh, tx)
    data, rng = Molecules(), np.random.default_rng(1)
    for epoch in range(args.epochs):
        losses = []
        for batch in data.batches(args.batch, rng):
            batch = jax.device_put(batch, NamedSharding(mesh, P("mol")))
            params, opt_state, loss = step(params, opt_state, batch)
            losses.append(loss)
        print(epoch, np.mean(jax.device_get(losses)))


if __name__ == "__main__":
    main()
