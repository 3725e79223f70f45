import jax
import numpy as np
from jax.sharding import NamedSharding

from layout import Layout
from load import expert_load


def main(tokens=128, experts=4):
    layout = Layout(jax.make_mesh((2, 4), ("data", "fsdp"), axis_types=(jax.sharding.AxisType.Auto,) * 2))
    chosen = np.random.default_rng(0).integers(0, experts, tokens).astype(np.int32)
    chosen = jax.device_put(chosen, NamedSharding(layout.mesh, layout.rows()))
    _, load = jax.jit(lambda one: expert_load(layout, one, experts))(chosen)
    print("counted:", int(load.sum()), "of", tokens)


if __name__ == "__main__":
    main()
