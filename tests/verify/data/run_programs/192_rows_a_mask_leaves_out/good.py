"""Perplexity of a held-out set, in batches of one size."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 " + os.environ.get("XLA_FLAGS", "")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
ROWS = NamedSharding(mesh, P("data"))
WORDS, LENGTH, BATCH = 128, 16, 64


def logits(params, tokens):
    hidden = jnp.tanh(params["table"][tokens] @ params["mix"])
    return hidden @ params["table"].T


@jax.jit
def totals(params, batch):
    tokens, there = batch["tokens"], batch["there"]
    scores = jax.nn.log_softmax(logits(params, tokens[:, :-1]))
    each = -jnp.take_along_axis(scores, tokens[:, 1:, None], axis=-1)[..., 0]
    return jnp.sum(each * there[:, None]), jnp.sum(there) * (LENGTH - 1)


def batches(tokens):
    for start in range(0, len(tokens), BATCH):
        some = tokens[start : start + BATCH]
        there = np.zeros(BATCH, np.float32)
        there[: len(some)] = 1
        some = np.pad(some, ((0, BATCH - len(some)), (0, 0)), mode="edge")
        yield jax.device_put({"tokens": some, "there": there}, ROWS)


def perplexity(params, tokens):
    loss = count = 0.0
    for batch in batches(tokens):
        some, rows = totals(params, batch)
        loss, count = loss + float(some), count + float(rows)
    return float(np.exp(loss / count))


def main():
    keys = jax.random.split(jax.random.key(0), 2)
    params = {
        "table": jax.random.normal(keys[0], (WORDS, 64)) * 0.2,
        "mix": jax.random.normal(keys[1], (64, 64)) * 0.2,
    }
    params = jax.device_put(params, NamedSharding(mesh, P()))
    tokens = np.random.default_rng(0).integers(0, WORDS, (3 * BATCH + 11, LENGTH)).astype(np.int32)
    print(f"perplexity {perplexity(params, tokens):.2f}")


if __name__ == "__main__":
    main()
