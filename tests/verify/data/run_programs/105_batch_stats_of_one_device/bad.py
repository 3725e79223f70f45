"""ImageNet style training with pmap: batch statistics are kept by each device and synchronised before evaluation."""
import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils
from flax.training import common_utils, train_state


class TrainState(train_state.TrainState):
    batch_stats: Any


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        for width in (256, 512, 512):
            x = nn.Dense(width, use_bias=False)(x)
            x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
            x = nn.relu(x)
        return nn.Dense(10)(x)


def train_step(state, batch):
    def loss_fn(params):
        logits, new = state.apply_fn({"params": params, "batch_stats": state.batch_stats}, batch["image"], True, mutable=["batch_stats"])
        onehot = common_utils.onehot(batch["label"], 10)
        return optax.softmax_cross_entropy(logits, onehot).mean(), new
    (loss, new), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    grads = jax.lax.pmean(grads, "batch")
    state = state.apply_gradients(grads=grads, batch_stats=new["batch_stats"])
    return state, jax.lax.pmean({"loss": loss}, "batch")


def eval_step(state, batch):
    logits = state.apply_fn({"params": state.params, "batch_stats": state.batch_stats}, batch["image"], False)
    return jax.lax.pmean(jnp.mean(jnp.argmax(logits, -1) == batch["label"]), "batch")






def batches(rng, n, size=256):
    for _ in range(n):
        image = rng.normal(size=(size, 784)).astype(np.float32)
        yield common_utils.shard({"image": image, "label": rng.integers(0, 10, size)})


def main():
    model = Net()
    variables = model.init(jax.random.PRNGKey(0), jnp.ones((1, 784)), True)
    state = TrainState.create(apply_fn=model.apply, params=variables["params"], tx=optax.sgd(0.1, 0.9), batch_stats=variables["batch_stats"])
    state = jax_utils.replicate(state)
    p_train = jax.pmap(train_step, axis_name="batch", donate_argnums=0)
    p_eval = jax.pmap(functools.partial(eval_step), axis_name="batch")
    rng = np.random.default_rng(0)
    for epoch in range(2):
        for batch in batches(rng, 3):
            state, metrics = p_train(state, batch)
        accuracy = [p_eval(state, batch)[0] for batch in batches(rng, 2)]
        print(epoch, float(metrics["loss"][0]), float(np.mean(accuracy)))
    final = jax_utils.unreplicate(state)  # here
    print(sum(x.size for x in jax.tree.leaves((final.params, final.batch_stats))))


if __name__ == "__main__":
    main()
