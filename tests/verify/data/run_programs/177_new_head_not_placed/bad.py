"""Fine-tuning: the body was split when loaded, the new head of many classes is drawn later and never placed."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

D, CLASSES, BATCH = 256, 4096, 64
mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
RULES = {"up": P(None, "model"), "down": P("model", None), "head": P(None, "model")}


def pretrained():
    rng = np.random.default_rng(0)
    weights = {
        "up": rng.normal(size=(D, 4 * D)).astype(np.float32) * D**-0.5,
        "down": rng.normal(size=(4 * D, D)).astype(np.float32) * (4 * D) ** -0.5,
        "head": rng.normal(size=(D, 1024)).astype(np.float32) * D**-0.5,
    }
    return {k: jax.device_put(w, NamedSharding(mesh, RULES[k])) for k, w in weights.items()}


def replace_head(params, key):
    head = jax.random.normal(key, (D, CLASSES)) * D**-0.5  # here
    return {**params, "head": head}


def logits(params, x):
    return (x + jax.nn.gelu(x @ params["up"]) @ params["down"]) @ params["head"]


tx = optax.adamw(1e-3)


@jax.jit
def step(params, opt_state, x, y):
    def loss(params):
        return optax.softmax_cross_entropy_with_integer_labels(logits(params, x), y).mean()

    value, grads = jax.value_and_grad(loss)(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, value


def main():
    params = replace_head(pretrained(), jax.random.key(1))
    opt_state = tx.init(params)
    rng = np.random.default_rng(3)
    put = lambda a: jax.device_put(a, NamedSharding(mesh, P("data")))
    for _ in range(3):
        x = put(rng.normal(size=(BATCH, D)).astype(np.float32))
        y = put(rng.integers(0, CLASSES, size=BATCH))
        params, opt_state, loss = step(params, opt_state, x, y)
        print(float(loss))


if __name__ == "__main__":
    main()
