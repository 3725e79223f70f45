import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
WHOLE, SPLIT = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
WIDTH, HIDDEN = 256, 1024
opt = optax.adam(1e-3)


def init(key):
    first, second = jax.random.split(key)
    return {
        "up": {"w": jax.random.normal(first, (WIDTH, HIDDEN)) * 0.02},
        "down": {"w": jax.random.normal(second, (HIDDEN, WIDTH)) * 0.02},
    }


def step(w, state, x):
    out = lambda w: x + jax.nn.relu(x @ w["up"]["w"]) @ w["down"]["w"]
    value, grads = jax.value_and_grad(lambda w: jnp.mean((out(w) - jnp.sin(x)) ** 2))(w)
    updates, state = opt.update(grads, state, w)
    return optax.apply_updates(w, updates), state, value


w = jax.jit(init, out_shardings=WHOLE)(jax.random.key(0))
places = jax.tree.map(lambda leaf: SPLIT if leaf.ndim else WHOLE, jax.eval_shape(opt.init, w))
state = jax.jit(opt.init, out_shardings=places)(w)
step = jax.jit(step, out_shardings=(WHOLE, places, WHOLE))
for _ in range(3):
    w, state, value = step(w, state, jax.device_put(np.ones((64, WIDTH), np.float32), SPLIT))
print(value)
