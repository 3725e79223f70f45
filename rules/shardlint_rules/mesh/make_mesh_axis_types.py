"""SL307."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.bound_names import reads_of_binding, sole_name_of
from shardlint.facts.explicit_axes import speaks_of_explicit, written_for_auto
from shardlint.facts.repeated import is_test
from shardlint.facts.shardings import CONSTRAINTS
from shardlint.model import Program
from shardlint.model.values import Api, Constant, Items, Place, options
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint_rules.mesh._mapped_over import find_map_over_mesh
from shardlint_rules.mesh.constraints import file_constraining_nearby, sharding_argument, sharding_targets

# Releases whose make_mesh warns where it is not told.
_WARNS = ">=0.8.1,<0.9"
_ADD = "add `axis_types=(jax.sharding.AxisType.Auto,) * n`"
_KEPT = "the axis names are not written as strings here"


class MakeMeshAxisTypes(Rule):
    """A mesh without `axis_types` has Explicit axes, and constraints over it raise.

    `jax.make_mesh` makes Explicit axes since jax 0.9, `AbstractMesh` since jax 0.12. `jax.sharding.Mesh` still makes
    Auto axes. Over Explicit axes a constraint that names an axis raises ValueError. Many operations need an
    `out_sharding`. `shard_map` raises ValueError for an array that is not sharded as its `in_specs`.

    ## Reports
    - proven: a mesh without `axis_types` that a `with_sharding_constraint` or `eqx.filter_shard` of the project uses.
    - proven: a mesh without `axis_types`, if the project pins a jax that makes Auto axes, and shardlint checks it for a
      newer jax that makes Explicit axes (`--target`).
    - proven: a mesh without `axis_types` that a `shard_map` maps over, if no code of the project places an array.
    - proven: a `make_mesh` without `axis_types` on jax 0.8.1 to 0.8.3, which warns that the default will change.
    - `with-constraints` (likely): a mesh without `axis_types`, if a file of the program has sharding constraints, and
      no file mentions Explicit axes.
    - `in-tests` (possible): such a mesh in a test, which fails if it reaches a constraint.
    - `without-constraints` (possible): a mesh without `axis_types`, if no file of the program has sharding constraints
      or mentions Explicit axes.

    ## Fix
    Adds `axis_types=(AxisType.Auto,) * n`. Unsafe for the mesh of a `shard_map` and for the forms `with-constraints`,
    `in-tests` and `without-constraints`: you may want Explicit axes.

    ## Limits
    Not reported: a mesh that is used only to replicate arrays, by `NamedSharding(mesh, P())`.
    """

    code = "SL307"
    name = "make-mesh-axis-types"
    harm = Harm.CRASH
    likely = ("with-constraints",)
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.8.1"}
    triggers = (Calls("jax.make_mesh", "jax.sharding.AbstractMesh"),)
    closed = ("positional", "keywords")
    in_version_checks = False
    fixes = "both"

    @detector("call")
    def report_constraint(self, site: Site) -> Finding | None:
        """A mesh whose axes are Explicit, and a constraint over it."""
        found = _find_constraint(site) if _makes_explicit(site) else None
        if found is None:
            return None
        return site.finding(
            site.call,
            f"The constraint at {site.where(found)} raises ValueError: on {site.release('jax')} "
            f"`{site.short_name}` makes Explicit axes.",
            label="Explicit axes",
            help=f"{_ADD}, or replace the constraint by `jax.sharding.reshard`",
            fix=self._write_fix(site, Safety.SAFE),
            why="a constraint with a NamedSharding may name Auto axes only",
            kept=_KEPT,
        )

    @detector("call")
    def report_shard_map(self, site: Site) -> Finding | None:
        """A mesh whose axes are Explicit, and a shard_map over it."""
        found = find_map_over_mesh(site) if _makes_explicit(site) else None
        if found is None or speaks_of_explicit(site):
            return None
        return site.finding(
            site.call,
            f"The `shard_map` at {site.where(Place(*found))} raises ValueError: on {site.release('jax')} "
            f"`{site.short_name}` has Explicit axes, and no argument is sharded.",
            label="Explicit axes",
            help=f"{_ADD}, or `jax.device_put` the arguments with the shardings of `in_specs`",
            fix=self._write_fix(site, Safety.UNSAFE),
            why="on a mesh with Explicit axes shard_map takes only arrays that are sharded as its in_specs, and no "
            "code of the project places any",
            kept=_KEPT,
        )

    @detector("call", of="jax.make_mesh")
    def report_warning(self, site: Site) -> Finding | None:
        """A mesh whose axes will be Explicit."""
        if not site.allows("jax", _WARNS) or _has_axis_types(site):
            return None
        return site.finding(
            site.call,
            f"On {site.release('jax')} `{site.short_name}` warns: from jax 0.9 on its axes are Explicit.",
            label="Explicit from jax 0.9 on",
            help=_ADD,
            fix=self._write_fix(site, Safety.SAFE),
            harm=Harm.REMOVED,
            why="on a mesh with Explicit axes constraints raise, and many operations need an out_sharding",
            kept=_KEPT,
        )

    @detector("call")
    def report_pinned(self, site: Site) -> Finding | None:
        """A mesh whose axes are not Explicit on the release that the project pins."""
        if not _makes_explicit(site) or not written_for_auto(site, site.api):
            return None
        return self._report_explicit(site, "the project pins a jax that makes Auto axes", Safety.SAFE)

    @detector("call", finds=("with-constraints", "without-constraints", "in-tests"))
    def report_explicit(self, site: Site) -> Finding | None:
        """A mesh whose axes are Explicit in a program that does not mention such axes."""
        if not _makes_explicit(site) or speaks_of_explicit(site) or _only_replicates(site):
            return None
        near, form = file_constraining_nearby(site), "without-constraints"
        why = "no file of the program mentions Explicit axes"
        if near is not None:
            why = f"{near.path.name} constrains arrays by specs, and {why}"
            form = "in-tests" if is_test(site.file, site.call) else "with-constraints"
        return self._report_explicit(site, why, Safety.UNSAFE, form)

    def _report_explicit(self, site: Site, why: str, safety: Safety, form: str = "") -> Finding:
        return site.finding(
            site.call,
            f"On {site.release('jax')} `{site.short_name}` makes Explicit axes: constraints raise, and many operations "
            "need an out_sharding.",
            label="Explicit axes",
            help=_ADD,
            fix=self._write_fix(site, safety),
            form=form,
            why=why,
            kept=_KEPT,
        )

    def _write_fix(self, site: Site, safety: Safety) -> Fix | None:
        names, types = site.argument("axis_names"), site.argument("axis_types")
        if names is None:
            return None
        from shardlint.rules_api.cst import append_argument

        value = site.value(names)
        if isinstance(value, Items) and not value.open:
            count = str(len(value.items))
        elif isinstance(value, Constant) and isinstance(value.value, str):
            count = "1"
        elif isinstance(names, ast.Name | ast.Attribute):
            count = f"len({site.text(names)})"
        else:
            return None
        auto, imports = site.spell("jax.sharding.AxisType.Auto")
        text = f"({auto},)" if count == "1" else f"({auto},) * {count}"
        why = "" if safety is Safety.SAFE else "you may have meant Explicit axes"
        if types is not None:
            edits = [site.replace(types, text), *imports]
        else:
            call = append_argument(site.node, "axis_types", text)
            edits = [site.replace(site.call, call), *imports]
        return site.fix(safety, f"add axis_types={text}", edits, why)


def _has_axis_types(site: Site) -> bool:
    types = site.argument("axis_types")
    return types is not None and site.value(types) != Constant(None)


def _makes_explicit(site: Site) -> bool:
    """Return whether the mesh has Explicit axes because the call does not say which."""
    return site.shardings.is_explicit_by_default(site.api) and not _has_axis_types(site)


def _find_constraint(site: Site) -> Place | None:
    """A constraint of the project over the mesh that the site makes."""
    for file, call in _constraint_calls(site.program, site.file):
        argument = _find_shardings(site.program, file, call)
        if argument is None:
            continue
        for target in sharding_targets(site.program, file, argument):
            over = any(all(mesh.place.node is site.call for mesh in way) for way in target.meshes)
            if target.names_an_axis and over:
                return Place(file, call)
    return None


def _constraint_calls(program: Program, home: FileFacts) -> Iterator[tuple[FileFacts, ast.Call]]:
    seen: set[ast.Call] = set()
    for name in CONSTRAINTS:
        word = name.rpartition(".")[2]
        for file in program.project.files_with_attribute(home, word):
            if file is None:
                break  # too many to read
            for node in file.find_mentions(word):
                call = file.parent(node)
                if isinstance(call, ast.Call) and call.func is node and call not in seen:
                    seen.add(call)
                    yield file, call


def _find_shardings(program: Program, file: FileFacts, call: ast.Call) -> ast.expr | None:
    for option in options(program.value(file, call.func)):
        if isinstance(option, Api) and option.name in CONSTRAINTS:
            return sharding_argument(call, option.name)
    return None


def _only_replicates(site: Site) -> bool:
    """True if each use of the mesh is `NamedSharding(mesh, P())`: such arrays are the same for all axis types."""
    target = sole_name_of(site.file, site.call)
    uses = list(reads_of_binding(site.file, target, only=False)) if target is not None else []
    return bool(uses) and all(_is_replicated_sharding(site, site.file.parent(use)) for use in uses)


def _is_replicated_sharding(site: Site, node: ast.AST | None) -> bool:
    if not isinstance(node, ast.Call) or not site.is_call_of(node, "jax.sharding.NamedSharding"):
        return False
    match node.args:
        case [_, ast.Call(args=[], keywords=[]) as spec]:
            return site.is_call_of(spec, "jax.sharding.PartitionSpec")
    return False
