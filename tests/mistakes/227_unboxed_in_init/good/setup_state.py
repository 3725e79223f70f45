import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training import train_state
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from encoder import Encoder


def mesh_from_devices(tp: int) -> Mesh:
    return jax.make_mesh(
        (jax.device_count() // tp, tp),
        ("fsdp", "tp"),
        axis_types=(jax.sharding.AxisType.Auto,) * 2,
    )


def create_state(model: Encoder, tx: optax.GradientTransformation, mesh: Mesh, length: int):
    """Build the train state directly in its final layout and return it with its shardings."""
    sample = jnp.zeros((8, length), jnp.int32)

    def init_fn(key):
        variables = model.init(key, sample)
        return train_state.TrainState.create(apply_fn=model.apply, params=variables["params"], tx=tx)

    abstract = jax.eval_shape(init_fn, jax.random.key(0))
    specs = nn.get_partition_spec(abstract)
    shardings = jax.tree.map(
        lambda s: NamedSharding(mesh, s), specs, is_leaf=lambda s: isinstance(s, PartitionSpec)
    )
    state = jax.jit(lambda k: nn.meta.unbox(init_fn(k)), out_shardings=shardings)(jax.random.key(0))
    return state, shardings
