import argparse

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
import optax

from axes import Dims, Layout
from classifier import Classifier


def initial_state(dims: Dims, layout: Layout, optim: optax.GradientTransformation):
    """Weights and optimizer state, created in the layout they are stored in."""

    def build():
        model = Classifier.init(dims, key=jax.random.PRNGKey(0))
        return model, optim.init(eqx.filter(model, eqx.is_inexact_array))

    return hax.named_jit(build, axis_resources=layout.param_mapping)()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--tensor", type=int, default=1)
    args = parser.parse_args()
    dims, layout = Dims(), Layout(args.tensor)
    optim = optax.adam(1e-3)

    def step(model, opt_state, x, y):
        x = hax.shard(x, layout.compute_mapping)

        def loss_fn(model):
            logits = model(x)
            rows = logits.rearrange((dims.Batch, dims.Classes)).array
            return optax.softmax_cross_entropy_with_integer_labels(rows, y.array).mean()

        loss, grads = eqx.filter_value_and_grad(loss_fn)(model)
        updates, opt_state = optim.update(grads, opt_state, model)
        return eqx.apply_updates(model, updates), opt_state, loss

    with jax.set_mesh(layout.mesh()):
        model, opt_state = initial_state(dims, layout, optim)
        step = hax.named_jit(step)
        rng = np.random.default_rng(0)
        for i in range(args.steps):
            x = hax.named(jnp.asarray(rng.normal(size=(dims.batch, dims.embed)), jnp.float32), ("batch", "embed"))
            y = hax.named(jnp.asarray(rng.integers(0, dims.classes, dims.batch)), ("batch",))
            if i == 0:
                w = model.up.weight.array
                print("stored up weight shard", w.addressable_shards[0].data.shape, "of", w.shape)
            model, opt_state, loss = step(model, opt_state, x, y)
            print("step", i, "loss", float(loss))


if __name__ == "__main__":
    main()
