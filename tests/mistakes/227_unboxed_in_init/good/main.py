import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from encoder import Encoder
from setup_state import create_state, mesh_from_devices


def loss_fn(params, apply_fn, ids):
    logits = apply_fn({"params": params}, ids[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, ids[:, 1:]).mean()


def bytes_per_device(tree) -> int:
    return sum(x.addressable_shards[0].data.nbytes for x in jax.tree.leaves(tree) if isinstance(x, jax.Array))


def main() -> None:
    ap = argparse.ArgumentParser()
    ap.add_argument("--tp", type=int, default=2)
    ap.add_argument("--steps", type=int, default=2)
    ap.add_argument("--length", type=int, default=32)
    args = ap.parse_args()
    mesh = mesh_from_devices(args.tp)
    model = Encoder(vocab=512)
    state, shardings = create_state(model, optax.adam(3e-4), mesh, args.length)
    data = NamedSharding(mesh, P("fsdp"))

    def step(state, ids):
        loss, grads = jax.value_and_grad(loss_fn)(state.params, state.apply_fn, ids)
        return state.apply_gradients(grads=grads), loss

    step = jax.jit(step, out_shardings=(shardings, NamedSharding(mesh, P())), donate_argnums=0)
    rng = np.random.default_rng(0)
    for i in range(args.steps):
        ids = jax.device_put(rng.integers(0, 512, (16, args.length + 1), dtype=np.int32), data)
        state, loss = step(state, ids)
        print("step", i, "loss", float(loss))
    whole = sum(x.nbytes for x in jax.tree.leaves(state.params))
    print(f"params: {bytes_per_device(state.params)} bytes on a device, {whole} in all")


if __name__ == "__main__":
    main()
