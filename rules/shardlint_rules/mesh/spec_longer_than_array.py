"""SL303."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.shardings import literal_leaves
from shardlint.model.evaluator.trees import zip_leaves
from shardlint.model.mesh.meshes import Spec
from shardlint.model.shapes import shape_of_value
from shardlint.model.values import CallResult, Constant, Value, options
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety, Violates, detector
from shardlint.rules_api.site import Site
from shardlint_rules.mesh._initializers import ANNOTATING, find_too_many_names

# The array and the sharding it is given.
_GIVEN = {
    "jax.device_put": ("x", "device"),
    "jax.lax.with_sharding_constraint": ("x", "shardings"),
    "equinox.filter_shard": ("x", "device_or_shardings"),
}
_HELP = "write at most one entry per dimension"


class SpecLongerThanArray(Rule):
    """A spec has more entries than its array has dimensions.

    The sharding itself is accepted. The call that applies it to the array raises ValueError: `... is only valid for
    values of rank at least 3`. `shard_map` raises ValueError too: `... in_specs entry which is too long`.

    ## Reports
    - proven: a spec that is too long for an array of known rank, in `device_put`, `with_sharding_constraint`,
      `eqx.filter_shard`, `in_shardings`, `out_shardings` or `shard_map`. A `None` at the end counts as an entry, and a
      scalar has no dimension.
    - proven: `nnx.with_partitioning` with more names than the array of the initializer has dimensions, from flax 0.12.
    - `under-mesh` (likely): the same with `nn.with_partitioning`, `nn.with_logical_partitioning` or an older NNX. These
      raise only under a mesh, or where the names become shardings.
    - proven: a flax variable with more names than dimensions, if the code calls `nn.unbox` on it under a mesh.
    - `in-calls` (likely): a spec that is too long for the array that one of the callers passes.

    ## Write instead
    Write at most one entry per dimension. `P()` means replicated for every rank.

    ## Fix
    Removes the surplus `None` entries. No fix for a spec with too many axes.

    ## Limits
    Not reported: `jax.reshard`, although it raises ValueError for a spec that is too long. SL313 reports `jax.reshard`
    over Auto axes.
    """

    code = "SL303"
    name = "spec-longer-than-array"
    harm = Harm.CRASH
    likely = ("in-calls", "under-mesh")
    assumptions: ClassVar[Mapping[str, str]] = {
        "in-calls": "The call runs with the defaults of its parameters.",
        "under-mesh": "The model runs under a mesh, or its names become shardings.",
    }
    assumes = True
    triggers = (Calls(*_GIVEN, *ANNOTATING), Violates("spec.rank"))
    behind = ("SL229",)
    in_version_checks = False
    blames_calls = True
    fixes = "safe"

    @detector("violation")
    def report_rank(self, site: Site) -> Finding:
        """A spec with more entries than its array has dimensions."""
        said = site.violation.said
        array = f"leaf `{said['array']}`" if said["array"] else f"`{said['shape']}`"
        return site.report_violation(
            _say_too_many(array, int(said["rank"]), int(said["entries"])),
            help=_HELP,
            why=f"the array is `{said['shape']}`",
            fix=_fix_by_shorter_spec(site, int(said["rank"])),
        )

    @detector("call", of=tuple(ANNOTATING))
    def report_names(self, site: Site) -> Finding | None:
        """An initializer with more axis names than the parameter has dimensions."""
        found = find_too_many_names(site)
        if found is None:
            return None
        has = _count_dimensions(found.dimensions)
        # NNX from 0.12 on shards a variable when it is created, and raises without a mesh too.
        is_eager = site.api == "flax.nnx.with_partitioning" and site.allows("flax", ">=0.12")
        return site.finding(
            found.node,
            f"Under a mesh the model raises ValueError: {found.names} axis names for a parameter of {has}.",
            label=f"{found.names} names",
            help="write one name per dimension",
            form="" if is_eager else "under-mesh",
            why=f"on {site.release('flax')} each name is one entry of the spec of this parameter",
        )

    @detector("call", of=tuple(_GIVEN))
    def report_leaf(self, site: Site) -> Finding | None:
        """The first leaf of a tree of arrays that is too short, also of what a caller in another file passes."""
        array, sharding = map(site.argument, _GIVEN[site.api])
        if array is None or sharding is None:
            return None
        trees = site.program.evaluator.trees
        arrays, shardings = (trees.expand_tree_map(site.value(node)) for node in (array, sharding))
        one = isinstance(shardings, CallResult)
        for path, (leaf, *given) in zip_leaves([arrays] if one else [arrays, shardings]):
            if not path or isinstance(leaf, Constant):  # filter_shard leaves numbers of Python alone
                continue
            spec = _spec_of(site, shardings if one else given[0])
            shape = shape_of_value(site.program.evaluator, leaf) if spec is not None and not spec.open else None
            if spec is not None and shape is not None and len(shape) < len(spec.entries):
                words = " ".join(spec.place.source_text().split())
                message = _say_too_many(f"leaf `{path}`", len(shape), len(spec.entries))
                return site.finding(sharding, message, help=_HELP, why=f"the spec is {words}")
        return None


def _say_too_many(array: str, rank: int, entries: int) -> str:
    shown = "one entry" if entries == 1 else f"{entries} entries"
    return f"This raises ValueError: {array} has {_count_dimensions(rank)}, but its spec has {shown}."


def _count_dimensions(rank: int) -> str:
    return {0: "no dimension", 1: "one dimension"}.get(rank, f"{rank} dimensions")


def _spec_of(site: Site, value: Value) -> Spec | None:
    """The one spec of a sharding, or what is a spec itself."""
    parts = site.sharding_parts(value)
    specs = options(parts[1]) if parts is not None else (value,)
    return site.spec_of(specs[0]) if len(specs) == 1 else None


def _fix_by_shorter_spec(site: Site, rank: int) -> Fix | None:
    """The spec without the `None`s that are too many, where it is written in this file."""
    found = literal_leaves(site.value(site.syntax)) if isinstance(site.syntax, ast.expr) else []
    spec = _spec_of(site, found[0]) if len(found) == 1 else None
    call = spec.place.node if spec is not None else None
    if spec is None or spec.place.file is not site.file or not isinstance(call, ast.Call) or call.keywords:
        return None
    if any(not entry.known or entry.axes or entry.unconstrained for entry in spec.entries[rank:]):
        return None
    if len(call.args) != len(spec.entries) or call.lineno != call.end_lineno:
        return None
    text = f"{site.text(call.func)}({', '.join(site.text(one) for one in call.args[:rank])})"
    return site.fix(Safety.SAFE, f"write {text}", [site.replace(call, text)])
