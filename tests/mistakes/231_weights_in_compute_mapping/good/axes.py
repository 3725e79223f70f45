"""Named axes and the two mappings from logical to physical axes."""

import dataclasses

import haliax as hax
import jax
from jax.sharding import AxisType, Mesh


@dataclasses.dataclass(frozen=True)
class Dims:
    batch: int = 32
    embed: int = 256
    mlp: int = 512
    classes: int = 16

    @property
    def Batch(self) -> hax.Axis:
        return hax.Axis("batch", self.batch)

    @property
    def Embed(self) -> hax.Axis:
        return hax.Axis("embed", self.embed)

    @property
    def Mlp(self) -> hax.Axis:
        return hax.Axis("mlp", self.mlp)

    @property
    def Classes(self) -> hax.Axis:
        return hax.Axis("classes", self.classes)


@dataclasses.dataclass(frozen=True)
class Layout:
    """FSDP: activations are split by batch, stored weights by embed."""

    tensor: int = 1

    def mesh(self) -> Mesh:
        n = jax.device_count() // self.tensor
        return jax.make_mesh((n, self.tensor), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))

    @property
    def compute_mapping(self) -> dict:
        return {"batch": "data", "mlp": "model"}

    @property
    def param_mapping(self) -> dict:
        return {"embed": "data", "mlp": "model"}
