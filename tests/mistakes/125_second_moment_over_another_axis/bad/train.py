"""Train the classifier on a data x model grid."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

import net
from meshes import DATA, grid


def blobs(n, features, classes, seed):
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(0, classes, n))
    centres = np.random.default_rng(0).normal(size=(classes, features)) * 2
    x = centres[labels] + rng.normal(size=(n, features))
    return x.astype(np.float32), labels.astype(np.int32)


def main(steps=20, lr=0.1):
    mesh = grid()
    params, running = net.init(jax.random.key(1), 10, 32, 5)
    forward = jax.shard_map(
        net.global_loss,
        mesh=mesh,
        in_specs=(net.SPECS, net.RUNNING_SPECS, P(DATA), P(DATA)),
        out_specs=(P(), net.RUNNING_SPECS),
        check_vma=False,
    )

    @jax.jit
    def step(params, running, x, y):
        (loss, running), grads = jax.value_and_grad(forward, has_aux=True)(params, running, x, y)
        params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return params, running, loss

    for i in range(steps):
        x, y = blobs(64, 10, 5, seed=i + 1)
        params, running, loss = step(params, running, x, y)
        if i % 5 == 0:
            print(f"step {i} loss {float(loss):.5f}")
    print(f"final loss {float(loss):.5f} running var mean {float(jnp.mean(running['var'])):.5f}")


if __name__ == "__main__":
    main()
