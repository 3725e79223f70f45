import jax
import numpy as np

from spmd import compile_step, make_mesh
from task import TaskConfig, init, step


def data(cfg, n=3, size=32):
    rng = np.random.default_rng(0)
    for _ in range(n):
        x = rng.normal(size=(size, cfg.features)).astype(np.float32)
        yield {"x": x, "y": x.sum(1)}


def main():
    cfg = TaskConfig()
    mesh = make_mesh()
    params = init(jax.random.key(0), cfg)
    run = compile_step(step, cfg, mesh)
    for batch in data(cfg):
        params, loss = run(params, batch)
        print(loss)


if __name__ == "__main__":
    main()
