"""Perplexity over all devices."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from report import Report


class Evaluator:
    def __init__(self, mesh, axis="data"):
        self.axis = axis
        self.measure = jax.jit(
            jax.shard_map(self._measure, mesh=mesh, in_specs=(P(axis), P(axis)), out_specs=P())
        )

    def _measure(self, logits, targets):
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[:, None], axis=1)
        nll = -picked.mean()
        return {
            "nll": jax.lax.pmean(nll, self.axis),
            "perplexity": jnp.exp(jax.lax.pmean(nll, self.axis)),
        }


def main():
    mesh = Mesh(np.array(jax.devices()), ("data",))
    rows = NamedSharding(mesh, P("data"))
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(64, 16)) * np.repeat([0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 4.0], 8)[:, None]
    targets = rng.integers(0, 16, 64)
    targets[:56] = logits[:56].argmax(-1)
    found = Evaluator(mesh).measure(
        jax.device_put(logits.astype(np.float32), rows), jax.device_put(targets, rows)
    )
    print(f"nll {float(found['nll']):.3f} perplexity {float(found['perplexity']):.0f}")
    Report("devices").add("all", jax.device_count()).add("of this process", jax.local_device_count()).show()


if __name__ == "__main__":
    main()
