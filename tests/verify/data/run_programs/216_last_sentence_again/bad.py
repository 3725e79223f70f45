"""The perplexity of a small language model over sentences, the last batch of which is filled up with its last one."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

WORDS, LENGTH, WIDTH, BATCH = 80, 24, 32, 64
mesh = jax.make_mesh((8,), ("batch",), axis_types=(AxisType.Auto,))


def log_likelihood(weights, words):
    x = weights["words"][words[:, :-1]]
    x = jnp.cumsum(x, axis=1) / jnp.arange(1, LENGTH)[:, None]
    scores = jax.nn.log_softmax(jnp.tanh(x @ weights["mix"]) @ weights["words"].T)
    return jnp.take_along_axis(scores, words[:, 1:, None], axis=-1)[..., 0]


@partial(jax.jit, out_shardings=NamedSharding(mesh, P()))
def score(weights, words):
    each = log_likelihood(weights, words)
    return jnp.sum(each), jnp.float32(each.size)  # here


def batches(sentences):
    for start in range(0, len(sentences), BATCH):
        part = sentences[start : start + BATCH]
        part = np.pad(part, ((0, BATCH - len(part)), (0, 0)), mode="edge")
        yield jax.device_put(part, NamedSharding(mesh, P("batch")))


def main():
    rng = np.random.default_rng(1)
    weights = {"words": rng.normal(size=(WORDS, WIDTH)) / 4, "mix": rng.normal(size=(WIDTH, WIDTH)) / 4}
    weights = jax.device_put(jax.tree.map(np.float32, weights), NamedSharding(mesh, P()))
    total, count = 0.0, 0.0
    for words in batches(rng.integers(0, WORDS, (3 * BATCH + 9, LENGTH), dtype=np.int32)):
        one, of = score(weights, words)
        total, count = total + float(one), count + float(of)
    print("perplexity", np.exp(-total / count))


main()
