"""An agent that keeps its policy on one device of its process."""

import jax
import jax.numpy as jnp


class Agent:
    def __init__(self, device, observations=4, actions=2):
        self.device = device
        key = jax.random.key(0)
        self.params = jax.device_put(
            {"w": jax.random.normal(key, (observations, actions)), "b": jnp.zeros(actions)}, device
        )

    def act(self, observation):
        observation = jax.device_put(observation, self.device)
        logits = observation @ self.params["w"] + self.params["b"]
        return jnp.argmax(logits, axis=-1)

    def update(self, observations, actions, returns, rate=0.1):
        """One step of REINFORCE on the device of the agent."""
        batch = jax.device_put((observations, actions, returns), self.device)

        def loss(params):
            x, chosen, weight = batch
            logits = jax.nn.log_softmax(x @ params["w"] + params["b"])
            taken = jnp.take_along_axis(logits, chosen[:, None], axis=-1)[:, 0]
            return -jnp.mean(taken * weight)

        grads = jax.grad(loss)(self.params)
        self.params = jax.tree.map(lambda p, g: p - rate * g, self.params, grads)
