import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils

from net import Net, State, merge_batch_stats
from steps import eval_step, train_step

train = jax.pmap(train_step, axis_name="devices")
evaluate = jax.pmap(eval_step, axis_name="devices")


def main(rounds=2):
    net = Net()
    variables = net.init(jax.random.key(0), jnp.ones((1, 4)), False)
    state = jax_utils.replicate(State.create(apply_fn=net.apply, tx=optax.sgd(0.01), **variables))
    rng = np.random.default_rng(0)
    same = np.ones((8, 2, 4), np.float32)
    for _ in range(rounds):
        for _ in range(3):
            x = rng.normal(size=(8, 16, 4)).astype(np.float32)
            state, _ = train(state, x, x.sum(axis=-1))
        answers = np.asarray(evaluate(state, same))  # mistake: first-shard-only
    print("one model was evaluated:", bool(np.allclose(answers, answers[0])))
    return jax_utils.unreplicate(merge_batch_stats(state))


if __name__ == "__main__":
    main()
