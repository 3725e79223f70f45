"""SL251."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site

_HELP = "write `jax.device_put(x, NamedSharding(mesh, P()))` for each array, with one mesh for all"


class DevicesDiffer(Rule):
    """An operation combines arrays on different devices, or its arrays are not on the devices of the mesh in context.

    The operation raises ValueError if its arrays are committed to different devices. It also raises if `jax.set_mesh`
    sets a mesh of other devices. `device_put` with a device or a sharding commits an array, and jax does not move a
    committed array by itself.

    ## Reports
    - proven: an operation, or the call of a jitted function, on arrays that are committed to different devices.
    - proven: an operation, or the call of a jitted function, on arrays over two meshes that order the devices
      differently.
    - proven: an operation under `jax.set_mesh(mesh)` on an array that is committed to one device.
    - proven: a call of a jitted function with `out_shardings` over a mesh, on an array that is committed to one
      device.
    - proven: `with_sharding_constraint` or `jax.reshard` over a mesh outside of jit, on an array that is committed to
      one device.

    ## Write instead
    Call `jax.device_put(x, NamedSharding(mesh, P()))` before the operation, or remove the `device_put` to one device.

    ## Limits
    shardlint does not know the device order of a mesh from `jax.make_mesh`.
    """

    code = "SL251"
    name = "devices-differ"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.8.3"}
    triggers = (Violates("devices.differ", "devices.context"),)
    fixes = "none"

    @detector("violation", of="devices.differ")
    def report_arrays(self, site: Site) -> Finding:
        """Two arrays on different devices."""
        said = site.violation.said
        left, right = said["left_line"], said["right_line"]
        placed = f"at line {left} and at line {right}" if left != right else f"by two calls of line {left}"
        return site.report_violation(
            f"This raises ValueError: one array is committed to `{said['left']}`, another to `{said['right']}`.",
            help=_HELP,
            why=f"they are placed {placed}",
        )

    @detector("violation", of="devices.context")
    def report_mesh(self, site: Site) -> Finding:
        """An array on fewer devices than the mesh in context."""
        said = site.violation.said
        return site.report_violation(
            f"This raises ValueError: the array is committed to `{said['left']}`, and `{said['by']}` uses all devices.",
            help=_HELP,
            why=f"it is placed at line {said['left_line']}; the mesh is made at line {said['right_line']}",
        )
