"""A vocabulary that is split over the devices."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

from report import Report


class Head:
    def __init__(self, mesh, table):
        self.table = jax.device_put(table, NamedSharding(mesh, P(None, "model")))
        self.mapped = jax.jit(
            jax.shard_map(
                self.probabilities, mesh=mesh, in_specs=(P("data", None), P(None, "model")), out_specs=P("data", "model")
            )
        )

    def probabilities(self, hidden, table):
        logits = (hidden @ table) / np.sqrt(hidden.shape[-1])
        return jax.nn.softmax(logits, axis=-1)  # mistake: statistic-of-a-shard

    def __call__(self, hidden):
        return self.mapped(hidden, self.table)


def main():
    mesh = jax.make_mesh((2, 4), ("data", "model"))
    rng = np.random.default_rng(0)
    hidden = jax.device_put(rng.normal(size=(4, 16)).astype(np.float32), NamedSharding(mesh, P("data", None)))
    found = Head(mesh, rng.normal(size=(16, 40)).astype(np.float32))(hidden)
    print(f"probabilities add up to {float(jnp.sum(found, -1).mean()):.1f}")
    Report("devices").add("all", jax.device_count()).add("of this process", jax.local_device_count()).show()


if __name__ == "__main__":
    main()
