"""Sampled words: the state holds a copy of one key for each device, into which the function folds its number."""
import jax
import jax.numpy as jnp
from flax import jax_utils

COUNT = jax.local_device_count()


def sample(state, prompt):
    here = jax.random.fold_in(state["key"], jax.lax.axis_index("d"))
    logits = jnp.tanh(state["table"][prompt]) @ state["table"].T
    # The temperature is one for all.
    heat = jax.random.uniform(state["key"], (), minval=0.7, maxval=1.3)
    word = jnp.argmax(logits / heat + jax.random.gumbel(here, logits.shape), axis=-1)
    return {**state, "key": jax.random.split(state["key"])[0]}, word


step = jax.pmap(sample, axis_name="d")
table = jax.random.normal(jax.random.PRNGKey(0), (16, 8))
state = jax_utils.replicate({"table": table, "key": jax.random.PRNGKey(4)})
word = jnp.arange(COUNT * 3).reshape(COUNT, 3) % 16
for _ in range(3):
    state, word = step(state, word)
print(word)
