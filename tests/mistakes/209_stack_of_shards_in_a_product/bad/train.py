"""Training with parameters that are split over the devices."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

from whole import gathered
from report import Report


def make_loss(mesh, axis="fsdp"):
    def body(params, x, y):
        whole = gathered(params, axis)
        error = x @ whole["w"] + whole["b"] - y  # mistake: untiled-gather
        return jax.lax.pmean(jnp.mean(error**2), axis)

    split = P(axis)
    return jax.jit(
        jax.shard_map(body, mesh=mesh, in_specs=(split, split, split), out_specs=P(), check_vma=False)
    )


def main():
    mesh = jax.make_mesh((8,), ("fsdp",))
    rng = np.random.default_rng(0)
    split = NamedSharding(mesh, P("fsdp"))
    params = {"w": np.zeros((16, 24), np.float32), "b": np.zeros(24, np.float32)}
    x, y = rng.normal(size=(32, 16)).astype(np.float32), rng.normal(size=(32, 24)).astype(np.float32)
    params, x, y = jax.device_put((params, x, y), split)
    print(f"loss {float(make_loss(mesh)(params, x, y)):.0f}")
    Report("devices").add("all", jax.device_count()).add("of this process", jax.local_device_count()).show()


if __name__ == "__main__":
    main()
