import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "expert"))
TOKENS, WIDTH, HIDDEN, EXPERTS = 512, 256, 512, 4
ROWS = ("data", "expert")


def constrain(x, *spec):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def attend(w, x):
    return x + jax.nn.silu(x @ w["mix"]) @ w["out"]


def experts(w, x):
    scores = jax.nn.softmax(x @ w["router"])
    x = constrain(x, "data")
    hidden = constrain(jnp.einsum("td,edh->eth", x, w["up"]), "expert", "data")
    each = jnp.einsum("eth,ehd->etd", jax.nn.relu(hidden), w["down"])
    each = constrain(each * constrain(scores, "data").T[:, :, None], "expert", "data")
    return constrain(each.sum(0), "data")


@jax.jit
def train_step(w, x, y):
    def loss_fn(w):
        h = constrain(x, ROWS)
        h = constrain(attend(w, h), ROWS)
        return jnp.mean((h + experts(w, h) - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(w)
    return jax.tree.map(lambda p, g: p - 0.1 * g, w, grads), loss


rng = np.random.default_rng(0)
shapes = {
    "mix": (WIDTH, HIDDEN),
    "out": (HIDDEN, WIDTH),
    "router": (WIDTH, EXPERTS),
    "up": (EXPERTS, WIDTH, HIDDEN),
    "down": (EXPERTS, HIDDEN, WIDTH),
}
w = {
    name: jax.device_put(
        rng.normal(size=shape).astype(np.float32) * 0.05,
        NamedSharding(mesh, P("expert") if len(shape) == 3 else P()),
    )
    for name, shape in shapes.items()
}
place = NamedSharding(mesh, P(("expert", "data")))
for _ in range(3):
    x = jax.device_put(rng.normal(size=(TOKENS, WIDTH)).astype(np.float32), place)  # here
    w, loss = train_step(w, x, x)
print(float(loss))
