"""Standardises a batch over all devices, in one of two ways."""

import jax
import jax.numpy as jnp
import numpy as np

from mapping import array_pmap


@array_pmap(axis_name="devices")
def standardise(x, how):
    if how == "mean":
        return x - jax.lax.pmean(jnp.mean(x), "devices")
    return x / jax.lax.pmax(jnp.max(jnp.abs(x)), "devices")


def main():
    x = np.arange(32, dtype=np.float32).reshape(jax.local_device_count(), -1)
    try:
        print("the mean is left:", round(float(np.mean(standardise(x, "mean"))), 3))
    except NameError as error:
        print("NameError:", error)


if __name__ == "__main__":
    main()
