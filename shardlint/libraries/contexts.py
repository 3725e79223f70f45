"""What `with` enters: meshes, devices, blocks in which an error is expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint.layouts.layout import Mesh
from shardlint.layouts.values import Call, Unknown, Value
from shardlint.libraries.registry import function
from shardlint.model.api import HARMLESS_CONTEXTS

if TYPE_CHECKING:
    from shardlint.layouts.interpreter import Interpreter


class Entered:
    """What a call of a context manager gives: the name of the manager, and a mesh that it sets."""

    def __init__(self, name: str, mesh: Value = None) -> None:
        self.name, self.mesh = name, mesh


@function("jax.set_mesh", "jax.sharding.use_mesh")
def set_mesh(call: Call) -> Value:
    """Sets the mesh of the context, at once when it is called as a function."""
    mesh = call.get(0, "mesh")
    entered = Entered("set_mesh", mesh)
    run = call.interpreter
    if run.region is None or not run.calls:
        run.mesh, run.mesh_known = (mesh, True) if isinstance(mesh, Mesh) else (None, False)
    else:
        run.mesh_known = False
    return entered


@function("pytest raises warns", "contextlib.suppress", "jax.default_device", "jax.disable_jit")
def excusing(call: Call) -> Value:
    """Blocks in which an error is expected, or arrays are made on another device."""
    return Entered(call.name)


def entered(run: Interpreter, context: Value) -> Value:
    """Enter a context manager; what `as` binds."""
    if isinstance(context, Entered):
        if context.name in (
            "pytest.raises",
            "pytest.warns",
            "contextlib.suppress",
            "jax.default_device",
            "jax.disable_jit",
        ):
            run.excused += 1
        elif isinstance(context.mesh, Mesh):
            run.mesh, run.mesh_known = context.mesh, True
        else:
            run.mesh, run.mesh_known = None, False
        return context.mesh
    if isinstance(context, Mesh):  # `with mesh:` makes names of axes known, and no types
        run.mesh, run.mesh_known = None, False
        return context
    if isinstance(context, Unknown) and any(
        context.why == f"`{name}` is not modelled" for name in HARMLESS_CONTEXTS
    ):
        return Unknown("what a context manager gives")
    run.mesh, run.mesh_known = None, False
    return Unknown("what a context manager gives")
