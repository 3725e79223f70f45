import jax
import numpy as np
from flax import jax_utils
from flax.training import common_utils

from ridge.step import TX, train_step


def batches(count, size=32):
    rng = np.random.default_rng(0)
    for _ in range(count):
        x = rng.standard_normal((size, 8), dtype=np.float32)
        yield {"x": x, "y": x.sum(1)}


def held_out(params, size=64):
    """The loss of one copy of the weights on rows that were not trained on."""
    x = np.random.default_rng(1).standard_normal((size, 8), dtype=np.float32)
    return float(np.mean((x @ np.asarray(params["w"]) - x.sum(1)) ** 2))


def main():
    rng = jax.random.key(0)
    params = {"w": np.zeros(8, np.float32)}
    opt_state = TX.init(params)
    params, opt_state = jax_utils.replicate((params, opt_state))
    for batch in batches(40):
        rng, dropout = jax.random.split(rng)
        params, opt_state, loss = train_step(params, opt_state, common_utils.shard(batch), dropout)  # mistake: pmap-leading-axis
    one = jax_utils.unreplicate(params)
    print("held out", held_out(one))
    print("loss fell", bool(loss[0] < 4))


if __name__ == "__main__":
    main()
