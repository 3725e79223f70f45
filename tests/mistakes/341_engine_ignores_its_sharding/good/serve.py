import jax
import jax.numpy as jnp
import numpy as np
from engine import Engine
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def shardings(mesh):
    return {
        "embed": NamedSharding(mesh, P("model", None)),
        "up": NamedSharding(mesh, P(None, "model")),
        "down": NamedSharding(mesh, P("model", None)),
    }


def main(tokens=4):
    mesh = jax.make_mesh((8,), ("model",), axis_types=(jax.sharding.AxisType.Auto,))
    engine = Engine(width=16, vocab=64)
    weights = engine.place_weights(engine.load(np.random.default_rng(0)), shardings(mesh))
    step = jax.jit(engine.step)
    token = jnp.zeros((2,), jnp.int32)
    for _ in range(tokens):
        token = step(weights, token)
    print("devices of the weights:", len(weights["up"].sharding.device_set))
    return token


if __name__ == "__main__":
    main()
