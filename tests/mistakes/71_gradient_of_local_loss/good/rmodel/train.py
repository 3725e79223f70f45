import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

from rmodel import model
from rmodel.config import TrainConfig


def build_step(cfg: TrainConfig, mesh: Mesh):
    axis = cfg.data_axis
    lr = cfg.optim.learning_rate

    def step(params, x, y):
        loss, grads = jax.value_and_grad(lambda p: lax.pmean(model.mse(p, x, y), axis))(params)
        params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return params, loss

    sharded = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(P(), P(axis), P(axis)),
        out_specs=(P(), P()),
    )
    return jax.jit(sharded, donate_argnums=0)


def main(cfg=TrainConfig()):
    mesh = Mesh(np.array(jax.devices()), (cfg.data_axis,))
    params = model.init(jax.random.key(0), cfg.features, cfg.hidden)
    step = build_step(cfg, mesh)
    rng = np.random.default_rng(0)
    for i in range(cfg.steps):
        x = rng.standard_normal((cfg.batch, cfg.features)).astype(np.float32)
        y = x[:, 0] * 2 - x[:, 1]
        params, loss = step(params, jnp.asarray(x), jnp.asarray(y))
    print("loss", float(loss))
    return params


if __name__ == "__main__":
    main()
