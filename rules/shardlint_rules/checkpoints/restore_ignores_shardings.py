"""SL701."""

from __future__ import annotations

import ast

from shardlint.facts.bound_names import settled_expression
from shardlint.facts.repeated import is_test
from shardlint.model.values import CallResult, Constant, Value, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Methods, Rule, detector
from shardlint.rules_api.site import Site

_ARGS = "orbax.checkpoint.args.PyTreeRestore"
_HANDLER = "orbax.checkpoint.PyTreeCheckpointHandler"
_ALONE = ("orbax.checkpoint.PyTreeCheckpointer", _HANDLER)
_WITH_HANDLER = ("orbax.checkpoint.Checkpointer", "orbax.checkpoint.AsyncCheckpointer")
_MANAGER = "orbax.checkpoint.CheckpointManager"
# Of these one says that the program has more than one device.
_SPREADS = ("NamedSharding", "make_mesh", "Mesh", "PositionalSharding")
_SHAPES = ("jax.eval_shape", "flax.nnx.eval_shape", "equinox.filter_eval_shape")
_PARTS = ("flax.nnx.state", "flax.nnx.to_pure_dict", "flax.linen.unbox")


class RestoreIgnoresShardings(Rule):
    """An orbax restore with the PyTree handler ignores the shardings of its target.

    The restored arrays have the shardings and the mesh with which they were saved. On another number of devices the
    restore raises.

    ## Reports
    - `without-restore-args` (likely): `PyTreeCheckpointer().restore(path, item=target)` or
      `args.PyTreeRestore(item=target)` without `restore_args`. Also `restore` of a
      `Checkpointer(PyTreeCheckpointHandler())`, or of a `CheckpointManager` with such a handler.

    ## Write instead
    Write `restore_args=ocp.checkpoint_utils.construct_restore_args(target)`, or call
    `StandardCheckpointer().restore(path, target)`, which reads the shardings of the target.

    ## Limits
    Reported only if the program names a mesh or a `NamedSharding`. Not reported: notebooks, tests, and targets of
    `eval_shape`, which have no shardings.
    """

    code = "SL701"
    name = "restore-ignores-shardings"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("without-restore-args",)
    triggers = (Calls(_ARGS), Methods("restore", file_says=("PyTreeCheckpoint", "orbax")))
    closed = ("keywords",)
    project = "orbax"
    fixes = "none"

    @detector("call")
    def find_target_of_args(self, site: Site) -> Finding | None:
        """A target in `PyTreeRestore(item)`."""
        given = {one.arg: one.value for one in site.call.keywords}
        if "restore_args" in given or len(site.call.args) > 1 or site.arguments.open_positional:
            return None
        return self._make_finding(site, given.get("item", site.call.args[0] if site.call.args else None))

    @detector("method")
    def find_target_of_method(self, site: Site) -> Finding | None:
        """A target in `checkpointer.restore(path, item)`."""
        func = site.call.func
        if not isinstance(func, ast.Attribute) or any(isinstance(one, ast.Starred) for one in site.call.args):
            return None
        given = {one.arg: one.value for one in site.call.keywords}
        if not given.keys().isdisjoint(("restore_args", "restore_kwargs", "args")) or len(site.call.args) > 2:
            return None
        if not all(_restores_pytree(site, one) for one in options(site.value(func.value))):
            return None
        target = given.get("item", given.get("items", site.call.args[1] if len(site.call.args) == 2 else None))
        # `restore(path, ocp.args.PyTreeRestore(...))`: what is to be read is said there.
        if target is not None and any(_is_args(one) for one in options(site.value(target))):
            return None
        return self._make_finding(site, target)

    def _make_finding(self, site: Site, target: ast.expr | None) -> Finding | None:
        if target is None or isinstance(target, ast.Constant | ast.Dict) or is_test(site.file, site.syntax):
            return None
        if site.file.source.in_cells or _has_shapes_alone(site, target):
            return None
        if all(one == Constant(None) for one in options(site.value(target))):
            return None
        if not any(site.is_named_anywhere(word) for word in _SPREADS):
            return None
        text = site.shown(target)
        return site.finding(
            target,
            f"The restore ignores the shardings of `{text}`: arrays keep the shardings with which they were saved.",
            why="the PyTree handler reads the shardings from `restore_args`, and none are passed",
            help=f"write `restore_args=ocp.checkpoint_utils.construct_restore_args({text})`",
            form="without-restore-args",
        )


def _has_shapes_alone(site: Site, target: ast.expr) -> bool:
    """True if a target is what `eval_shape` gives, or the state or an entry of it: it has no shardings."""
    node = settled_expression(site.file, target)
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Call) and site.is_call_of(node, *_PARTS)):
        inner = node.value if isinstance(node, ast.Subscript) else next(iter(node.args), None)
        if inner is None:
            return False
        node = settled_expression(site.file, inner)
    return isinstance(node, ast.Call) and site.is_call_of(node, *_SHAPES)


def _is_args(value: Value) -> bool:
    return isinstance(value, CallResult) and value.api.startswith("orbax.checkpoint.args.")


def _restores_pytree(site: Site, value: Value) -> bool:
    """Return whether a checkpointer restores through the PyTree handler."""
    if not isinstance(value, CallResult) or value.call is None:
        return False
    if value.api in _ALONE:
        return True
    position = 0 if value.api in _WITH_HANDLER else 1
    if value.api not in (*_WITH_HANDLER, _MANAGER) or len(value.call.positional) <= position:
        return False
    inner = site.program.evaluator.value(value.call.positional[position], value.call.environment)
    return all(
        isinstance(one, CallResult)
        and (one.api in _ALONE or (value.api == _MANAGER and _restores_pytree(site, one)))
        for one in options(inner)
    )
