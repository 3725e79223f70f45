"""The network and the state of its training."""
import flax.linen as nn
import jax.numpy as jnp
import optax
from flax.training import train_state


class Net(nn.Module):
    width: int = 16

    @nn.compact
    def __call__(self, x, train=True):
        x = nn.relu(nn.Dense(self.width)(x))
        x = nn.Dropout(0.1, deterministic=not train)(x)
        return nn.Dense(1)(x)


def get_state(net, init_rng, features, learning_rate=0.1):
    variables = net.init({"params": init_rng}, jnp.ones((1, features)), train=False)
    return train_state.TrainState.create(
        apply_fn=net.apply, params=variables["params"], tx=optax.sgd(learning_rate)
    )
