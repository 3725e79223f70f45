"""What all experiments share: the steps on all devices. What is measured is the business of each of them."""

import functools

import jax
import jax.numpy as jnp
import optax
from flax import jax_utils


class Experiment:
    def __init__(self, seed, learning_rate):
        self.tx = optax.sgd(learning_rate)
        base_rng = jax.random.key(seed)
        train_rng, eval_rng = jax.random.split(base_rng)
        params = self.init_params()
        self.state = jax_utils.replicate((params, self.tx.init(params), 0))
        self.p_train = jax.pmap(functools.partial(self.train_step, train_rng), axis_name="batch")
        self.p_eval = jax.pmap(functools.partial(self.eval_step, eval_rng), axis_name="batch")

    def init_params(self):
        raise NotImplementedError

    def loss_fn(self, params, batch, rng):
        raise NotImplementedError

    def train_step(self, base_rng, state, batch):
        params, opt_state, step = state
        rng = jax.random.fold_in(base_rng, jax.lax.axis_index("batch"))
        rng = jax.random.fold_in(rng, step)
        (_, metrics), grads = jax.value_and_grad(self.loss_fn, has_aux=True)(params, batch, rng=rng)
        grads = jax.lax.pmean(grads, axis_name="batch")
        updates, opt_state = self.tx.update(grads, opt_state, params)
        return (optax.apply_updates(params, updates), opt_state, step + 1), jax.lax.pmean(metrics["loss"], "batch")

    def eval_step(self, base_rng, params, batch, number):
        rng = jax.random.fold_in(base_rng, jax.lax.axis_index("batch"))
        rng = jax.random.fold_in(rng, number)
        loss, metrics = self.loss_fn(params, batch, rng=rng)
        return jax.lax.pmean(loss, axis_name="batch"), metrics["times"]

    def train(self, batches):
        for batch in batches:
            self.state, loss = self.p_train(self.state, batch)
        return float(loss[0])

    def evaluate(self, batches):
        times = []
        for number, batch in enumerate(batches):
            number = jnp.full((jax.local_device_count(),), number)
            _, drawn = self.p_eval(self.state[0], batch, number)
            times.append(drawn)
        return times
