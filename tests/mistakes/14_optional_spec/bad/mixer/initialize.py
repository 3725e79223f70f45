"""From declarations to arrays."""

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mixer.spec import ParamSpec


class Initializer:
    def __init__(self, mesh: Mesh):
        self.mesh = mesh

    def sharding(self, spec: ParamSpec) -> NamedSharding:
        return NamedSharding(self.mesh, spec.partition)  # mistake: optional-spec

    def __call__(self, key: jax.Array, specs: dict[str, ParamSpec]) -> dict[str, jax.Array]:
        keys = dict(zip(specs, jax.random.split(key, len(specs))))
        params = {}
        for name, spec in specs.items():
            value = jax.random.normal(keys[name], spec.shape) * spec.scale
            params[name] = jax.device_put(value, self.sharding(spec))
        return params
