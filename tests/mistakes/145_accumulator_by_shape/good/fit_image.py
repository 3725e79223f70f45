import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from accumulate import Accumulator
from siren import Siren


@nnx.jit
def gradients(model, xy, rgb):
    return nnx.value_and_grad(lambda m: jnp.mean((m(xy) - rgb) ** 2))(model)


@nnx.jit
def apply(optimizer, model, grads):
    optimizer.update(model, grads)


def setup(every):
    model = Siren(64, nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    acc = Accumulator(every)
    acc.reset(nnx.state(model, nnx.Param))
    return model, optimizer, acc


def main(steps=4, every=2):
    mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(AxisType.Auto,))
    rng = np.random.default_rng(0)
    with jax.set_mesh(mesh):
        model, optimizer, acc = setup(every)
        first = acc.total
        for _ in range(steps):
            xy = rng.uniform(-1, 1, (64, 2)).astype(np.float32)
            rgb = np.stack([xy[:, 0], xy[:, 1], xy.prod(1)], 1)
            xy, rgb = jax.device_put((xy, rgb), NamedSharding(mesh, P("fsdp")))
            loss, grads = gradients(model, xy, rgb)
            if acc.add(grads):
                apply(optimizer, model, acc.mean())
                acc.reset(nnx.state(model, nnx.Param))
    print("loss", float(loss))
    return model, first


if __name__ == "__main__":
    main()
