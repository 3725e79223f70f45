import jax
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

from evaluate import Evaluator
from model import Tagger
from runtime import make_mesh, sharded


def synthetic(mesh, n, seed):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        ids = rng.integers(0, 64, (8, 12))
        yield jax.device_put({"ids": ids, "tags": ids % 8}, NamedSharding(mesh, P("data")))


def main():
    mesh = make_mesh()
    model, tx = Tagger(), optax.adam(3e-3)
    evaluator = Evaluator(model, mesh)
    sample = next(synthetic(mesh, 1, 0))["ids"]

    @jax.jit
    def step(params, opt, batch):
        def loss(p):
            lg = model.apply({"params": p}, batch["ids"])
            return optax.softmax_cross_entropy_with_integer_labels(lg, batch["tags"]).mean()

        v, g = jax.value_and_grad(loss)(params)
        u, opt = tx.update(g, opt)
        return optax.apply_updates(params, u), opt, v

    with sharded(mesh):
        params = jax.jit(model.init, out_shardings=NamedSharding(mesh, P()))(jax.random.key(0), sample)["params"]
        opt = tx.init(params)
        for batch in synthetic(mesh, 4, 1):
            params, opt, loss = step(params, opt, batch)
    print("loss", float(loss), "acc", evaluator(params, list(synthetic(mesh, 2, 2))))
    return evaluator, params


if __name__ == "__main__":
    main()
