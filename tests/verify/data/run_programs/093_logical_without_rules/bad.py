"""Flax linen with logical axes, parameters initialised in place."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from jax.sharding import NamedSharding, PartitionSpec as P

RULES = (("batch", "data"), ("embed", None), ("mlp", "model"), ("vocab", "model"))


class Mlp(nn.Module):
    hidden: int

    @nn.compact
    def __call__(self, x):
        init = nn.initializers.lecun_normal()
        h = nn.Dense(self.hidden, kernel_init=nn.with_logical_partitioning(init, ("embed", "mlp")), name="up")(x)
        h = nn.gelu(h)
        return x + nn.Dense(x.shape[-1], kernel_init=nn.with_logical_partitioning(init, ("mlp", "embed")), name="down")(h)


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        for i in range(3):
            x = Mlp(2048, name=f"mlp{i}")(nn.LayerNorm(name=f"norm{i}")(x))
        return nn.Dense(256, kernel_init=nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("embed", "vocab")))(x)


mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
net = Net()
tx = optax.adamw(3e-4)


def init(key, x):
    params = net.init(key, x)
    return TrainState.create(apply_fn=net.apply, params=params, tx=tx)


x = np.random.default_rng(0).standard_normal((64, 512), dtype=np.float32)
y = np.random.default_rng(1).integers(0, 256, (64,))
abstract = jax.eval_shape(init, jax.random.key(0), x)
specs = nn.get_partition_spec(abstract)
shardings = nn.logical_to_mesh_sharding(specs, mesh)  # here
state = jax.jit(init, out_shardings=shardings)(jax.random.key(0), x)
batch = NamedSharding(mesh, P("data"))


def train_step(state, x, y):
    def loss_fn(params):
        logits = state.apply_fn(params, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


train_step = jax.jit(train_step, in_shardings=(shardings, batch, batch), out_shardings=(shardings, None), donate_argnums=0)
for _ in range(3):
    state, loss = train_step(state, jax.device_put(x, batch), jax.device_put(y, batch))
    print(float(loss))
