import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding


class MessagePassing(eqx.Module):
    """Sums messages along edges, several times."""

    message: eqx.nn.Linear
    update: eqx.nn.Linear
    rounds: int = eqx.field(static=True)
    node_sharding: NamedSharding | None = eqx.field(static=True)

    def __init__(self, dim, rounds, node_sharding, key):
        k1, k2 = jax.random.split(key)
        self.message = eqx.nn.Linear(dim, dim, key=k1)
        self.update = eqx.nn.Linear(2 * dim, dim, key=k2)
        self.rounds = rounds
        self.node_sharding = node_sharding

    def _constrain(self, nodes):
        if self.node_sharding is None:
            return nodes
        return lax.with_logical_constraint(nodes, self.node_sharding)  # mistake: unknown-name

    def __call__(self, nodes, senders, receivers):
        for _ in range(self.rounds):
            messages = jax.vmap(self.message)(nodes)[senders]
            received = jnp.zeros_like(nodes).at[receivers].add(messages)
            nodes = jax.nn.tanh(jax.vmap(self.update)(jnp.concatenate([nodes, received], axis=-1)))
            nodes = self._constrain(nodes)
        return nodes
