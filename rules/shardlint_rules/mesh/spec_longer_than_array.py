"""SL303."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.evaluator.trees import together
from shardlint.model.mesh.meshes import Spec, leaves
from shardlint.model.shapes import Shape, shape_of, shape_of_value
from shardlint.model.values import CallResult, Constant, Place, Value, options, settled
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Keywords, Rule, Safety, Violates
from shardlint.rules_api.site import Site
from shardlint_rules.mesh._any_rank import MAKING, any_shape, rank_at_most
from shardlint_rules.mesh._initializers import (
    ANNOTATING,
    KEYWORDS,
    VARIABLES,
    TooMany,
    is_told,
    made_too_short,
    too_many,
    variable_too_short,
)

# The array and the sharding it is given.
_GIVEN = {
    "jax.device_put": ("x", "device"),
    "jax.lax.with_sharding_constraint": ("x", "shardings"),
    "equinox.filter_shard": ("x", "device_or_shardings"),
}


class SpecLongerThanArray(Rule):
    """A spec has more entries than its array has dimensions.

    The sharding itself is accepted. The call that applies it to the array raises `ValueError: ... is only valid for
    values of rank at least 3`.

    ## Reports
    - proven: `device_put`, `with_sharding_constraint` or `eqx.filter_shard` of an array whose rank literals determine.
      A `None` at the end of the spec counts, and a scalar has no dimension.
    - proven: the names of `with_partitioning` or `nn.with_logical_partitioning` around an initializer of fewer
      dimensions, and the names of `nnx.Param(array, sharding=...)`.
    - `in-calls` (likely): the same for an array that one of the callers passes.
    - proven: the same for what the calls in sight pass, for `in_shardings`, `out_shardings` and specs of `shard_map`.
    - `on-a-way` (likely): the same on a branch that may not run, or with an option at its default.
    - `any-shape` (likely): `P(None)` for an array that is built with the shape of an array of any rank.
    - `rank-tested` (possible): a spec that is longer than a test around the call allows (`if x.ndim == 0:`).

    ## Write instead
    `P()`, which is replicated for every rank.

    ## Fix
    Removes the `None`s that are too many. An axis that is too many is left to you.

    ## Limits
    `jax.reshard` takes such a spec on a mesh with Auto axes and is not reported.
    """

    code = "SL303"
    name = "spec-longer-than-array"
    harm = Harm.CRASH
    likely = ("any-shape", "in-calls", "on-a-way")
    assumptions: ClassVar[Mapping[str, str]] = {
        "in-calls": "The call runs with the defaults of its parameters.",
        "on-a-way": "The branch runs, and options keep their defaults.",
    }
    assumes = True
    triggers = (
        Calls(*_GIVEN, *MAKING),
        Keywords(*KEYWORDS, file_says=("with_partitioning", "with_logical_partitioning")),
        Calls(*ANNOTATING),
        Calls(*VARIABLES, file_says=("sharding=", "sharding_names=")),
        Violates("spec.rank"),
    )
    forms = ("call", "keyword", "violation")
    in_version_checks = False
    blames_calls = True
    fixes = "safe"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
        if site.form == "violation":
            told = _is_of_keyword(site) or (isinstance(site.syntax, ast.expr) and is_told(site, site.syntax))
            if site.violation.said["rank"] != "0" and not told:  # of scalars SL229 tells
                yield self._report_rank(site)
            return
        if site.form == "keyword":
            yield from self._initializer(site, too_many(site, site.call))
            return
        if site.api in ANNOTATING:
            yield from self._initializer(site, made_too_short(site))
            return
        if site.api in VARIABLES:
            yield from self._initializer(site, variable_too_short(site, site.call))
            return
        array, sharding = (site.argument(name) for name in _GIVEN.get(site.api, ("shape", "sharding")))
        if array is None or sharding is None:
            return
        if site.api not in MAKING:
            yield from self._in_trees(site, array, sharding)
        spec = self._spec(site, sharding)
        if spec is None or spec.open:
            return
        if _is_left_alone(site, site.value(array)):
            return
        shape = None if site.api in MAKING else shape_of(site.program.evaluator, Place(site.file, array))
        if shape is None and site.wants("rank-tested", "any-shape"):
            yield from self._unproven(site, array, sharding, spec)
        if shape is None or len(shape) >= len(spec.entries):
            return
        yield site.finding(
            sharding,
            f"This raises ValueError: `{_short(site, array)}` has {_dimensions(shape)}, its spec {_entries(spec)}.",
            label=f"{_entries(spec)}, {_dimensions(shape)}",
            help="write at most one entry per dimension",
            why=_spec_in_words(site, spec),
            fix=self._fix(site, spec, len(shape)),
        )

    def _report_rank(self, site: Site) -> Finding:
        said = site.violation.said
        array = f"leaf `{said['array']}`" if said["array"] else f"`{said['shape']}`"
        has = _dimensions((None,) * int(said["rank"]))
        entries = "one entry" if said["entries"] == "1" else f"{said['entries']} entries"
        return site.report_violation(
            f"This raises ValueError: {array} has {has}, its spec {entries}.",
            help="write at most one entry per dimension",
            why=f"the array is `{said['shape']}`",
        )

    def _in_trees(self, site: Site, array: ast.expr, sharding: ast.expr) -> Iterator[Finding]:
        """The first leaf of a tree of arrays that is too short for its spec, in a tree of shardings or one for all."""
        evaluator = site.program.evaluator
        arrays, shardings = (evaluator.trees.expanded(site.value(node)) for node in (array, sharding))
        one = isinstance(shardings, CallResult)
        for path, (leaf, *given) in together([arrays] if one else [arrays, shardings]):
            if _is_left_alone(site, leaf):
                continue
            spec = self._spec_of(site, shardings if one else given[0]) if path else None
            shape = shape_of_value(evaluator, leaf) if spec is not None and not spec.open else None
            if spec is None or shape is None or len(shape) >= len(spec.entries):
                continue
            yield site.finding(
                sharding,
                f"This raises ValueError: leaf `{path}` has {_dimensions(shape)}, its spec {_entries(spec)}.",
                label=f"{_entries(spec)} for `{path}`",
                help="write at most one entry per dimension",
                why=_spec_in_words(site, spec),
            )
            return

    def _initializer(self, site: Site, found: TooMany | None) -> Iterator[Finding]:
        if found is None:
            return
        has = "one dimension" if found.dimensions == 1 else f"{found.dimensions} dimensions"
        yield site.finding(
            found.node,
            f"Initializing the model raises ValueError: {found.names} axis names for a `{found.parameter}` of {has}.",
            label=f"{found.names} names",
            help="write one name per dimension",
            why=f"on {site.release('flax')} each name is one entry of the spec of this parameter",
        )

    def _unproven(self, site: Site, array: ast.expr, sharding: ast.expr, spec: Spec) -> Iterator[Finding]:
        """A finding for an array whose rank a test bounds, or whose shape may be any."""
        replicated = all(entry.known and not entry.axes and not entry.unconstrained for entry in spec.entries)
        node = spec.place.node if replicated and spec.place.file is site.file else sharding
        help = (
            "write P(), which is replicated for every rank"
            if replicated
            else "write at most one entry per dimension"
        )
        fix = self._fix(site, spec, 0) if replicated else None
        if site.api not in MAKING:
            most = rank_at_most(site, array)
            if most is not None and most < len(spec.entries):
                yield site.finding(
                    node,
                    f"This raises ValueError: `{_short(site, array)}` has at most {_dimensions((None,) * most)}, its "
                    f"spec {_entries(spec)}.",
                    help=help,
                    certainty=Certainty.POSSIBLE,
                    form="rank-tested",
                    why="a test around the call bounds the rank",
                    fix=fix,
                )
            return
        why = any_shape(site, array)
        # A caller that passes the entries knows the rank.
        starred = any(isinstance(one, ast.Starred) for one in getattr(spec.place.node, "args", ()))
        if why is None or not replicated or len(spec.entries) != 1 or starred:
            return
        yield site.finding(
            node,
            f"`device_put` and jit refuse a scalar that gets {_one_line(spec)}: the spec has one entry too many.",
            help=help,
            certainty=Certainty.POSSIBLE,
            form="any-shape",
            why=f"{why}, also none",
            fix=fix,
        )

    def _spec(self, site: Site, node: ast.expr) -> Spec | None:
        """The one spec of an argument that holds one sharding."""
        value = site.value(node)
        found = leaves(value)
        if len(options(value)) != 1 or len(found) != 1 or isinstance(node, ast.Tuple | ast.List | ast.Dict):
            return None
        return self._spec_of(site, found[0])

    def _spec_of(self, site: Site, value: Value) -> Spec | None:
        """The one spec of a sharding, or what is a spec itself."""
        parts = site.sharding_parts(value)
        if parts is None:
            return site.spec_of(value)
        second = options(parts[1])
        return site.spec_of(second[0]) if len(second) == 1 else None

    def _fix(self, site: Site, spec: Spec, rank: int) -> Fix | None:
        call = spec.place.node
        extra = spec.entries[rank:]
        if any(not entry.known or entry.axes or entry.unconstrained for entry in extra):
            return None
        if spec.place.file is not site.file or not isinstance(call, ast.Call) or call.keywords:
            return None
        if len(call.args) != len(spec.entries) or call.lineno != call.end_lineno:
            return None
        text = f"{site.text(call.func)}({', '.join(site.text(one) for one in call.args[:rank])})"
        return site.fix(Safety.SAFE, f"write {text}", [site.replace(call, text)])


def _is_of_keyword(site: Site) -> bool:
    """Whether the names of a box are given where it is given to a layer: the form "keyword" tells of them."""
    call = site.file.parent(site.syntax)
    return isinstance(call, ast.Call) and isinstance(site.file.parent(call), ast.keyword)


def _is_left_alone(site: Site, value: Value) -> bool:
    """Whether filter_shard is given what is no array but a number of Python, which it hands on as it is."""
    found = options(value)
    return site.api == "equinox.filter_shard" and all(isinstance(settled(one), Constant) for one in found)


def _dimensions(shape: Shape) -> str:
    return {0: "no dimension", 1: "one dimension"}.get(len(shape), f"{len(shape)} dimensions")


def _entries(spec: Spec) -> str:
    return "one entry" if len(spec.entries) == 1 else f"{len(spec.entries)} entries"


def _spec_in_words(site: Site, spec: Spec) -> str:
    counted = ", where None counts" if any(entry.known and not entry.axes for entry in spec.entries) else ""
    return f"the spec is {_one_line(spec)}{counted}; run on {site.release('jax')}"


def _one_line(spec: Spec) -> str:
    return " ".join(spec.place.text().split())


def _short(site: Site, array: ast.expr) -> str:
    """An array as a message quotes it: in no more than a few words."""
    text = site.shown(array)
    return text if len(text.split()) < 5 else text.split("(")[0] + "(...)"
