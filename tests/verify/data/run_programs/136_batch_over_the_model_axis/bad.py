"""A keras-like layer over a mesh whose axes are given by the user: ModelParallel(layout, batch_dim)."""
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P


class LayoutMap(dict):
    """Regular expressions of variable names to the axes of their dimensions."""

    def find(self, name):
        for pattern, axes in self.items():
            if re.search(pattern, name):
                return P(*axes)
        return P()


class ModelParallel:
    def __init__(self, mesh, layout, batch_dim_name=None):
        self.mesh, self.layout = mesh, layout
        self.batch_dim_name = batch_dim_name or mesh.axis_names[0]

    def variable(self, name):
        return NamedSharding(self.mesh, self.layout.find(name))

    def data(self):
        return NamedSharding(self.mesh, P(self.batch_dim_name))

    def distribute(self, batch):
        return jax.tree.map(lambda x: jax.device_put(x, self.data()), batch)  # here


class Sequential:
    def __init__(self, sizes):
        self.sizes = sizes

    def build(self, key, distribution):
        variables = {}
        for i, (m, n) in enumerate(zip(self.sizes, self.sizes[1:])):
            key, sub = jax.random.split(key)
            name = f"dense_{i}/kernel"
            value = np.asarray(jax.random.normal(sub, (m, n))) * m**-0.5
            variables[name] = jax.device_put(value, distribution.variable(name))
            variables[f"dense_{i}/bias"] = jax.device_put(np.zeros(n, np.float32), distribution.variable(f"dense_{i}/bias"))
        return variables

    def call(self, variables, x):
        last = len(self.sizes) - 2
        for i in range(last + 1):
            x = x @ variables[f"dense_{i}/kernel"] + variables[f"dense_{i}/bias"]
            x = x if i == last else jax.nn.relu(x)
        return x


class Trainer:
    def __init__(self, model, distribution, optimizer):
        self.model, self.distribution, self.optimizer = model, distribution, optimizer

    @partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
    def train_step(self, variables, opt_state, batch):
        def loss_fn(v):
            return jnp.mean((self.model.call(v, batch["x"]) - batch["y"]) ** 2)

        loss, grads = jax.value_and_grad(loss_fn)(variables)
        updates, opt_state = self.optimizer.update(grads, opt_state)
        return optax.apply_updates(variables, updates), opt_state, loss

    def fit(self, dataset):
        variables = self.model.build(jax.random.key(0), self.distribution)
        opt_state = self.optimizer.init(variables)
        for batch in dataset:
            batch = self.distribution.distribute(batch)
            variables, opt_state, loss = self.train_step(variables, opt_state, batch)
            print(float(loss))


def dataset(steps, rows=128):
    rng = np.random.default_rng(0)
    for _ in range(steps):
        yield {
            "x": rng.standard_normal((rows, 512), dtype=np.float32),
            "y": rng.standard_normal((rows, 256), dtype=np.float32),
        }


def main():
    mesh = jax.make_mesh((4, 2), ("model", "batch"), axis_types=(AxisType.Auto,) * 2)
    layout = LayoutMap({r"dense_[02]/kernel": (None, "model"), r"dense_[13]/kernel": ("model", None), r"dense_[02]/bias": ("model",)})
    distribution = ModelParallel(mesh, layout)
    trainer = Trainer(Sequential([512, 1024, 1024, 1024, 256]), distribution, optax.adam(1e-3))
    trainer.fit(dataset(4))


if __name__ == "__main__":
    main()
