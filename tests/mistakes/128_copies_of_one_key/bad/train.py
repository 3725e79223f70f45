"""Train the bag-of-n-grams classifier."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils
from flax.training.common_utils import shard
from flax.training.train_state import TrainState

from model import BagClassifier
from steps import KeyStream, train_step


def documents(n, vocab, seed):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, n)
    low = (label * vocab // 4)[:, None]
    ids = low + rng.integers(0, vocab // 2, size=(n, 12))
    return {"ids": ids.astype(np.int32), "label": label.astype(np.int32)}


def main(steps=25, vocab=200, batch=8):
    model = BagClassifier(vocab=vocab, width=64, classes=3)
    variables = model.init(jax.random.PRNGKey(0), jnp.zeros((1, 12), jnp.int32), train=False)
    state = TrainState.create(
        apply_fn=model.apply, params=variables["params"], tx=optax.adam(5e-3)
    )
    state = jax_utils.replicate(state)
    keys = KeyStream(seed=1)
    for i in range(steps):
        state, metrics = train_step(state, shard(documents(batch, vocab, i)), keys.per_device())
        if i % 6 == 0:
            m = jax_utils.unreplicate(metrics)
            print(f"step {i} loss {m['loss']:.5f} units active somewhere {m['coverage']:.4f}")


if __name__ == "__main__":
    main()
