"""Context managers that `with` enters: meshes, devices, and blocks in which an error is expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint.layouts.layout import Mesh
from shardlint.layouts.values import Call, Instance, Native, Unknown, Value
from shardlint.libraries.registry import register_function
from shardlint.model.api import HARMLESS_CONTEXTS

if TYPE_CHECKING:
    from shardlint.layouts.run_state import RunState


class Entered:
    """A context manager: its name, the mesh that it sets, and its other settings."""

    def __init__(self, name: str, mesh: Value = None, sets: dict[str, Value] | None = None) -> None:
        self.name, self.mesh, self.sets = name, mesh, sets


@register_function("jax.set_mesh", "jax.sharding.use_mesh")
def set_mesh(call: Call) -> Value:
    """Sets the mesh of the context, at once when it is called as a function."""
    mesh = call.argument_at(0, "mesh")
    entered = Entered("set_mesh", mesh)
    run = call.interpreter
    run.legacy = None
    if isinstance(mesh, Mesh):
        run.entered.append(mesh)
    if run.region is None or not run.calls:
        run.mesh, run.mesh_known = (mesh, True) if isinstance(mesh, Mesh) else (None, False)
    else:
        run.mesh_known = False
    return entered


@register_function("jax.sharding.use_abstract_mesh")
def use_abstract_mesh(call: Call) -> Value:
    """Sets the mesh of a block of traced code."""
    return Entered("use_abstract_mesh", call.argument_at(0, "mesh"))


@register_function("jax.sharding.get_abstract_mesh", "jax.get_mesh", "jax.sharding.get_mesh")
def mesh_in_context(call: Call) -> Value:
    """The mesh in context."""
    run = call.interpreter
    return run.mesh if run.mesh is not None and run.mesh_known and not run.axes else Unknown("the mesh in context")


@register_function("pytest raises warns", "contextlib.suppress", "jax.default_device", "jax.disable_jit")
def excuse_errors(call: Call) -> Value:
    """Blocks in which an error is expected, or arrays are made on another device."""
    return Entered(call.name)


def set_context(run: RunState, sets: dict[str, Value]) -> None:
    """Set what holds for all that follows; it is not known where the call may not run."""
    sure = run.region is None or not run.calls
    run.contexts = {**run.contexts, **{name: one if sure else Unknown("a setting") for name, one in sets.items()}}


@register_function("shardlint.enter")
def enter_context(call: Call) -> Value:
    """Enter a context manager; gives what `as` binds."""
    run, context = call.interpreter, call.args[0]
    if isinstance(context, Entered):
        if context.name in (
            "pytest.raises",
            "pytest.warns",
            "contextlib.suppress",
            "jax.default_device",
            "jax.disable_jit",
        ):
            run.excused += 1
        elif context.sets is not None:
            run.contexts = {**run.contexts, **context.sets}
        elif isinstance(context.mesh, Mesh):
            run.mesh, run.mesh_known, run.legacy = context.mesh, True, None
        else:
            run.mesh, run.mesh_known, run.legacy = None, False, None
        return context.mesh
    if isinstance(context, Mesh):  # `with mesh:` makes names of axes known, and no types
        alone = run.legacy is not None or (run.mesh_known and run.mesh is None)
        run.mesh, run.mesh_known, run.legacy = None, False, context if alone else None
        run.entered.append(context)
        return context
    if isinstance(context, Native) and context.name in HARMLESS_CONTEXTS:
        return Unknown("what a context manager gives")
    if isinstance(context, Unknown) and any(
        context.why == f"`{name}` is not modelled" for name in HARMLESS_CONTEXTS
    ):
        return Unknown("what a context manager gives")
    if isinstance(context, Instance) and context.of is None:
        return context  # an object of a library that is closed behind the block
    run.mesh, run.mesh_known, run.legacy = None, False, None
    return Unknown("what a context manager gives")
