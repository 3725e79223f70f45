import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

from hybrid.config import Config
from hybrid.reduce import average

SPECS = {"up": P(None, "tp"), "down": P("tp", None)}


def loss_fn(params, x):
    h = jax.nn.relu(x @ params["up"])
    y = jax.lax.psum(h @ params["down"], "tp")
    return average(jnp.mean((y - x) ** 2), "dp")  # mistake: wrong-reducer


def make_step(cfg: Config, mesh: Mesh):
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(SPECS, P("dp")), out_specs=(SPECS, P()))
    def step(params, x):
        loss, grads = jax.value_and_grad(loss_fn)(params, x)
        return jax.tree.map(lambda p, g: p - cfg.lr * g, params, grads), loss

    return jax.jit(step)


def main(cfg=Config()):
    mesh = Mesh(np.array(jax.devices()).reshape(cfg.mesh.shape), cfg.mesh.names)
    a, b = jax.random.split(jax.random.key(0))
    params = {"up": jax.random.normal(a, (cfg.d, cfg.ff)), "down": jax.random.normal(b, (cfg.ff, cfg.d))}
    x = jax.random.normal(jax.random.key(9), (32, cfg.d))
    _, loss = make_step(cfg, mesh)(params, x)
    print(float(loss), float(jnp.mean((jax.nn.relu(x @ params["up"]) @ params["down"] - x) ** 2)))


if __name__ == "__main__":
    main()
