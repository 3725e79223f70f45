"""SL301."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.contexts import Context
from shardlint.model.mesh.meshes import Mesh
from shardlint.model.signatures import JITS
from shardlint.model.values import Api, Constant, Function, Transformed, Value
from shardlint.rules_api.rule import Certainty, Finding, Fix, Harm, Rule, Safety, Violates
from shardlint.rules_api.site import Site
from shardlint_rules.mesh._configured import configured
from shardlint_rules.mesh.given import WAKES, Given, given, jitted, literal, named, where

# Where the axis name stands in a collective's arguments.
_COLLECTIVES = {
    **dict.fromkeys(("psum", "pmean", "pmax", "pmin", "ppermute", "pshuffle"), 1),
    **dict.fromkeys(("all_gather", "all_to_all", "psum_scatter"), 1),
    "axis_index": 0,
    "axis_size": 0,
}


class UnknownAxis(Rule):
    """A spec names an axis that its mesh does not have.

    It raises `ValueError: Resource axis ... is not found in mesh` where the sharding is made, which can be late: when
    a step is traced after the data was loaded. A collective over an unknown axis raises when it is traced.

    ## Reports
    - proven: an axis in a `PartitionSpec` that is in none of the meshes it can meet: the mesh argument of the same
      call, or the meshes in context where it is used.
    - proven: a collective over such an axis in a function given to `shard_map`.
    - proven: the names of a Variable of flax NNX, which flax places over the mesh in context when it makes it.
    - `on-a-way` (likely): the same on a branch that may not run, or with an option at its default.
    - `configured` (likely): where a configuration names the axes of the mesh (`cfg["mesh_axes"]`, `FLAGS.mesh_axes`),
      an axis that no YAML or TOML file of the project and no default of the flag has.

    ## Fix
    Writes the one axis of the mesh with a similar name, for a literal name.

    ## Limits
    A mesh from an unknown caller and logical names are not reported.
    """

    code = "SL301"
    name = "unknown-axis"
    harm = Harm.CRASH
    likely = ("configured", "on-a-way")
    assumptions: ClassVar[Mapping[str, str]] = {
        "configured": "The axes come from a configuration of the project.",
        "on-a-way": "The branch runs, and options keep their defaults.",
    }
    assumes = True
    triggers = (*WAKES, Violates("axis.missing"))
    fixes = "safe"
    by_hand = "the name is no literal that resembles exactly one axis of the mesh"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each axis that is in none of the meshes."""
        if site.form == "violation":
            yield self._variable(site)
            return
        if site.api == "jax.shard_map":
            yield from self._collectives(site)
        specs = [one for one in given(site) if any(True for _ in named(one.spec))]
        if not specs:
            return
        known = self._meshes(site)
        if not known:
            yield from self._against_configurations(site, specs)
            return
        axes = _axes(known)
        for one in specs:
            for entry, axis in named(one.spec):
                # SL306 reports strings that are not a name.
                if axis not in axes and axis.isidentifier():
                    yield self._finding(site, where(site, one, entry, axis), axis, known, one)

    def _variable(self, site: Site) -> Finding:
        """The finding of a Variable of flax NNX that is placed when it is made."""
        said = site.violation.said
        return site.report_violation(
            f'This raises ValueError: the mesh ({said["mesh"]}) has no axis "{said["axis"]}".',
            help="write an axis of the mesh, or give a rule for the name",
            why=f"flax places the Variable when it makes it, and the mesh is made at line {said['line']}",
        )

    def _against_configurations(self, site: Site, specs: list[Given]) -> Iterator[Finding]:
        """Axes that no configuration of the project gives the mesh."""
        mesh = site.argument("mesh") if site.api == "jax.sharding.NamedSharding" else None
        if mesh is None or not site.wants("configured"):
            return
        asked = configured(site, mesh)
        for one in specs if asked is not None else ():
            for entry, axis in named(one.spec):
                if asked is not None and axis not in asked.axes and axis.isidentifier():
                    yield site.finding(
                        where(site, one, entry, axis),
                        self._message(site, one, axis, "no configuration of the mesh has an"),
                        label="not in a configuration",
                        help=f"write one of {', '.join(sorted(asked.axes))}",
                        certainty=Certainty.POSSIBLE,
                        form="configured",
                        why=asked.said,
                    )

    def _meshes(self, site: Site) -> list[Mesh] | None:
        """Every mesh the specs of the call can meet; None when that is not known."""
        if site.api in ("jax.sharding.NamedSharding", "jax.shard_map"):
            argument = site.argument("mesh")
            if argument is not None:
                value = site.value(argument)
                if value != Constant(None):
                    return site.shardings.meshes(value)
            elif site.api != "jax.shard_map" or site.form == "partial" or site.arguments.open_keywords:
                return None
        if site.api not in (*JITS, "jax.shard_map"):
            # A mesh entered by `with mesh:` is not read where jax.set_mesh is in force: outer ones count.
            entered = any(one.kind == "with mesh" for one in site.context.contexts)
            return _in_context(site.program.around(site.file, site.call) if entered else site.context)
        if site.form == "partial" and site.decorated is None:
            return None
        return _in_context(site.program.call_context(site.file, jitted(site)))

    def _finding(self, site: Site, node: ast.AST, axis: str, known: list[Mesh], one: Given | None) -> Finding:
        axes = _axes(known)
        listed = ", ".join(f'"{name}"' for name in axes)
        near = difflib.get_close_matches(axis, axes, n=2, cutoff=0.7)
        fix: Fix | None = None
        if len(near) == 1 and literal(node, axis):
            quote = site.text(node)[0]
            if quote in "\"'":
                text = f"{quote}{near[0]}{quote}"
                fix = site.fix(Safety.SAFE, f"write {text}", [site.replace(node, text)])
        meshes = sorted({site.where(mesh.place) for mesh in known})
        return site.finding(
            node,
            self._message(
                site, one, axis, "its mesh has no" if len(known) == 1 else "none of its meshes has an"
            ),
            label=f'did you mean "{near[0]}"?' if len(near) == 1 else "",
            help=f"write one of {listed}" if axes else "write a mesh with axes",
            fix=fix,
            certainty=Certainty.PROVEN if one is None or one.certain else Certainty.POSSIBLE,
            why=f"the mesh made at {' or '.join(meshes[:3])} has {f'the axes {listed}' if axes else 'no axes'}; run on "
            f"{site.release('jax')}",
        )

    def _message(self, site: Site, one: Given | None, axis: str, meshes: str) -> str:
        if one is None:
            raises = (
                "Tracing raises AssertionError" if site.allows("jax", ">=0.8") else "Tracing raises NameError"
            )
        elif site.api == "jax.sharding.NamedSharding":
            raises = "`NamedSharding` raises ValueError"
        elif site.api == "jax.shard_map":
            raises = "Calling the mapped function raises ValueError"
        else:
            raises = "This raises ValueError"
        return f'{raises}: {meshes} axis "{axis}".'

    # collectives

    def _collectives(self, site: Site) -> Iterator[Finding]:
        """Collectives in the body of the mapped function over an axis that nothing around it binds."""
        argument, body = site.argument("mesh"), self._body(site)
        if argument is None or body is None:
            return
        known = site.shardings.meshes(site.value(argument))
        if not known or body.place.file is not site.file or self._inside_a_map(site):
            return
        for call in site.file.walked(site.file.scope(body.node)).calls:
            for node in _axis_nodes(site, call):
                axis = node.value
                if not isinstance(axis, str) or axis in _axes(known) or self._bound_elsewhere(site, axis):
                    continue
                yield self._finding(site, node, axis, known, None)

    def _body(self, site: Site) -> Function | None:
        """The mapped function, if it is one of this project."""
        if site.decorated is not None:
            return site.program.evaluator.function(site.file, site.decorated)
        node = site.argument("f")
        value: Value | None = site.value(node) if node is not None else None
        while isinstance(value, Transformed) and value.api.name == "functools.partial":
            value = value.inner
        return value if isinstance(value, Function) else None

    def _inside_a_map(self, site: Site) -> bool:
        """Whether the mapping itself may run where other axes are bound: a vmap, pmap or shard_map body."""
        function = site.scope.function()
        return function is not None and site.region.traced != "never" and "jit" not in site.region.by

    def _bound_elsewhere(self, site: Site, axis: str) -> bool:
        """Whether the file names the axis anywhere else than in collectives: then something may bind it."""
        for quote in "\"'":
            start = site.file.source.text.find(f"{quote}{axis}{quote}")
            while start >= 0:
                before = site.file.source.text[max(0, start - 40) : start]
                if not any(f"{name}(" in before for name in _COLLECTIVES):
                    return True
                start = site.file.source.text.find(f"{quote}{axis}{quote}", start + 1)
        return False


def _axes(known: list[Mesh]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for mesh in known for name in mesh.axis_names or ()))


def _in_context(context: Context) -> list[Mesh] | None:
    if not context.complete or context.bare or not context.contexts:
        return None
    found = [one.mesh for one in context.contexts]
    known = [mesh for mesh in found if mesh is not None and mesh.axis_names is not None]
    return known if len(known) == len(found) else None


def _axis_nodes(site: Site, call: ast.Call) -> list[ast.Constant]:
    """The axes a collective names, as written out."""
    callee = site.value(call.func)
    if not isinstance(callee, Api) or not callee.name.startswith("jax.lax."):
        return []
    position = _COLLECTIVES.get(callee.name.removeprefix("jax.lax."))
    if position is None:
        return []
    found = next((keyword.value for keyword in call.keywords if keyword.arg == "axis_name"), None)
    if found is None and len(call.args) > position:
        found = call.args[position]
    parts = found.elts if isinstance(found, ast.Tuple | ast.List) else [found]
    return [part for part in parts if isinstance(part, ast.Constant)]
