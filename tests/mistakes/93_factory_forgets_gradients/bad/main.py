import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import logreg
from parallel import AXIS, data_parallel


class Fit:
    def __init__(self, dim=10, classes=4, lr=0.3):
        self.mesh = Mesh(np.array(jax.devices()), (AXIS,))
        self.rep = NamedSharding(self.mesh, P())
        self.tx = optax.sgd(lr, momentum=0.9)
        self.params = jax.device_put(logreg.init(dim, classes), self.rep)
        self.opt = self.tx.init(self.params)
        self.grad = data_parallel(jax.value_and_grad(logreg.nll), self.mesh)
        self.apply = jax.jit(self._apply, donate_argnums=(0, 1))

    def _apply(self, params, opt, grads):
        u, opt = self.tx.update(grads, opt)
        return optax.apply_updates(params, u), opt

    def step(self, x, y):
        x, y = jax.device_put((x, y), NamedSharding(self.mesh, P(AXIS)))
        loss, grads = self.grad(self.params, x, y)
        self.params, self.opt = self.apply(self.params, self.opt, grads)
        return float(loss)


def dataset(n, dim=10, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(classes, dim)) * 2
    y = rng.integers(0, classes, n)
    return (centers[y] + rng.normal(size=(n, dim))).astype(np.float32), y


def main(epochs=3, batch=64):
    fit = Fit()
    x, y = dataset(256)
    for e in range(epochs):
        for i in range(0, len(x), batch):
            loss = fit.step(x[i : i + batch], y[i : i + batch])
        print(e, loss)
    return fit


if __name__ == "__main__":
    main()
