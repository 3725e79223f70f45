"""A language model that knows padding by its word, beside a mask of rows that only another loss needs."""
import jax
import jax.numpy as jnp
import numpy as np

SIZE, LENGTH, WORDS = 16, 6, 40


@jax.jit
def loss(table, batch):
    tokens = batch["tokens"]
    logits = jnp.tanh(table[tokens[:, :-1]]) @ table.T
    each = -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1)[..., 0]
    known = (tokens[:, 1:] != 0).astype(each.dtype)
    return (each * known).sum(), known.sum()


@jax.jit
def agreement(table, batch):
    """Rows with labels come first; what follows them is as good for what needs none."""
    hidden = table[batch["tokens"]].mean(axis=1)
    return jnp.mean(hidden**2)


rng = np.random.default_rng(0)
table = jnp.asarray(rng.normal(size=(WORDS, 8)).astype(np.float32))
tokens = rng.integers(1, WORDS, (40, LENGTH)).astype(np.int32)
for start in range(0, 40, SIZE):
    some = tokens[start : start + SIZE]
    batch = {"tokens": np.pad(some, ((0, SIZE - len(some)), (0, 0))), "rows": np.arange(SIZE) < len(some)}
    total, count = loss(table, batch)
    print(float(total / count))
labelled = {"tokens": tokens[:SIZE], "labelled": (np.arange(SIZE) < 10).astype(np.float32)}
print(float(agreement(table, labelled)))
