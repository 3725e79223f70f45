"""Image classifier in flax linen with a TrainState; metrics are summed on the devices between reports."""
import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


@flax.struct.dataclass
class Metrics:
    loss: jax.Array
    correct: jax.Array
    confusion: jax.Array
    count: jax.Array

    @classmethod
    def empty(cls, classes):
        zero = jnp.zeros((), jnp.float32)
        return cls(zero, zero, jnp.zeros((classes, classes), jnp.float32), zero)

    def merge(self, other):
        return jax.tree.map(jnp.add, self, other)

    def summary(self):
        return {"loss": float(self.loss / self.count), "accuracy": float(self.correct / self.count)}


class Net(nn.Module):
    classes: int = 256
    features: int = 768

    @nn.compact
    def __call__(self, x):
        for i in range(4):
            h = nn.Dense(self.features, name=f"dense_{i}")(x)
            h = nn.LayerNorm(name=f"norm_{i}")(h)
            x = nn.gelu(h) if i == 0 else x + nn.gelu(h)
        return nn.Dense(self.classes, name="logits")(x)


class TrainState(train_state.TrainState):
    rng: jax.Array


def create_state(model, key, mesh):
    def make(key):
        params = model.init(key, jnp.zeros((1, 512)))["params"]
        return TrainState.create(apply_fn=model.apply, params=params, tx=optax.sgd(0.05, momentum=0.9), rng=key)

    return jax.jit(make, out_shardings=NamedSharding(mesh, P()))(key)


@jax.jit
def train_step(state, metrics, batch):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, batch["image"])
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])
        return loss.mean(), (loss, logits)

    (_, (loss, logits)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    guess = logits.argmax(-1)
    classes = logits.shape[-1]
    seen = jax.nn.one_hot(batch["label"], classes).T @ jax.nn.one_hot(guess, classes)
    new = Metrics(loss.sum(), (guess == batch["label"]).sum().astype(jnp.float32), seen, jnp.float32(loss.size))
    return state.apply_gradients(grads=grads), metrics.merge(new)


def pipeline(steps, batch, mesh):
    rng = np.random.default_rng(0)
    rows = NamedSharding(mesh, P("batch"))
    for _ in range(steps):
        image = rng.standard_normal((batch, 512), dtype=np.float32)
        label = rng.integers(0, 256, batch)
        yield jax.device_put({"image": image, "label": label}, rows)


def train(epochs=3, steps=3):
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    state = create_state(Net(), jax.random.key(0), mesh)
    for epoch in range(epochs):
        metrics = Metrics.empty(256)
        for batch in pipeline(steps, 128, mesh):
            state, metrics = train_step(state, metrics, batch)  # here
        print(epoch, metrics.summary())


if __name__ == "__main__":
    train()
