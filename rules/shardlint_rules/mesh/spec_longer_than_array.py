"""SL303."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.evaluator.trees import together
from shardlint.model.mesh.meshes import Spec, leaves
from shardlint.model.shapes import shape_of, shape_of_value
from shardlint.model.values import CallResult, Constant, Place, Value, options, settled
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Keywords, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint_rules.mesh._any_rank import MAKING, any_rank, any_shape, rank_at_most
from shardlint_rules.mesh._initializers import (
    ANNOTATING,
    KEYWORDS,
    VARIABLES,
    TooMany,
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

    ## What it does
    Reports a `PartitionSpec` in `device_put`, `with_sharding_constraint` or `eqx.filter_shard` with more
    entries than the array beside it has dimensions, where literals tell how many those are. A `None` at the
    end counts too, and a number or scalar array has no dimension at all. Also the names of `with_partitioning`
    (linen's and nnx's) and `nn.with_logical_partitioning` around an initializer that makes an array of fewer
    dimensions: that of a layer's parameter (the kernel's names for `bias_init`), of `self.param(name, init, shape)`,
    or of `init(key, shape)`, also where a helper is given the names; and those of `nnx.Param(array, sharding=...)`.

    ## Why it hurts
    `ValueError: ... is only valid for values of rank at least 3, but was applied to a value of rank 2`. The
    sharding itself is accepted, so nothing is seen until the array meets it. The functions that make arrays take the
    sharding too (on a mesh with Explicit axes not since jax 0.12): then `device_put` and `jit` refuse it later. `P()`
    is replicated for every rank.

    ## Fix safety
    Safe, and offered where only `None`s are too many: a spec may be shorter than the array, and `P()` says of
    every array what `P(None)` says of those with a dimension. Which axis is too many is yours to say.

    ## Evidence
    Run on jax 0.4.38 to 0.12. Arrays whose dimensions the text does not tell
    are left alone. The possible finding is left out where the code asks for the rank, where it
    uses the array as one with dimensions, or where names (`batch`), annotations or callers say that it has some.
    `jax.reshard` takes such a spec on a mesh with Auto axes, and is left alone.
    """

    code = "SL303"
    name = "spec-longer-than-array"
    harm = Harm.CRASH
    likely = ("any-shape", "in-calls")
    assumes = True
    triggers = (
        Calls(*_GIVEN, *MAKING),
        Keywords(*KEYWORDS, file_says=("with_partitioning", "with_logical_partitioning")),
        Calls(*ANNOTATING),
        Calls(*VARIABLES, file_says=("sharding=", "sharding_names=")),
    )
    forms = ("call", "keyword")
    in_version_checks = False
    blames_calls = True
    fixes = "safe"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
        if site.form == "keyword":
            yield from self._initializer(site, too_many(site, site.call))
            return
        if site.api in ANNOTATING:
            yield from self._initializer(site, made_too_short(site))
            return
        if site.api in VARIABLES:
            yield from self._initializer(site, variable_too_short(site))
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
        if shape is None and site.wants("rank-tested", "any-rank", "any-shape"):
            yield from self._unproven(site, array, sharding, spec)
        if shape is None or len(shape) >= len(spec.entries):
            return
        has = {0: "no dimensions", 1: "one dimension"}.get(len(shape), f"{len(shape)} dimensions")
        entries = "1 entry" if len(spec.entries) == 1 else f"{len(spec.entries)} entries"
        yield site.finding(
            sharding,
            f"On {site.release('jax')} this raises ValueError: `{site.text(array)}` has {has}, "
            f"and {spec.place.text()} has {entries}.",
            label=f"{entries} for an array of {has}",
            help="write at most one entry a dimension",
            fix=self._fix(site, spec, len(shape)),
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
            has = {0: "no dimensions", 1: "one dimension"}.get(len(shape), f"{len(shape)} dimensions")
            yield site.finding(
                sharding,
                f"On {site.release('jax')} this raises ValueError: the array at {path} has {has}, and "
                f"{spec.place.text()} has {len(spec.entries)} entries.",
                label=f"{len(spec.entries)} entries for an array of {has}, at {path}",
                help="write at most one entry a dimension",
            )
            return

    def _initializer(self, site: Site, found: TooMany | None) -> Iterator[Finding]:
        if found is None:
            return
        has = "one dimension" if found.dimensions == 1 else f"{found.dimensions} dimensions"
        yield site.finding(
            found.node,
            f"On {site.release('flax')} the sharding that is made of them raises ValueError when the model is "
            "initialized with it.",
            label=f"{found.names} names for a {found.parameter} of {has}",
            help="give one name for each dimension",
        )

    def _unproven(self, site: Site, array: ast.expr, sharding: ast.expr, spec: Spec) -> Iterator[Finding]:
        """What names, uses and tests tell of an array whose dimensions no literal tells."""
        most = rank_at_most(site, array) if site.api not in MAKING else None
        replicated = all(entry.known and not entry.axes and not entry.unconstrained for entry in spec.entries)
        if most is not None:
            why = f"for an array of rank {most} or less" if most else "for an array without dimensions"
            found = most < len(spec.entries)
        else:
            why = (any_shape if site.api in MAKING else any_rank)(site, array) or ""
            # A caller that gives the entries knows how many dimensions there are.
            starred = any(isinstance(one, ast.Starred) for one in getattr(spec.place.node, "args", ()))
            found = bool(why) and replicated and len(spec.entries) == 1 and not starred
        if not found:
            return
        written = spec.place.text()
        written = written if "\n" not in written else "the spec"
        if site.api in MAKING:
            harm = (
                "gives an array without dimensions a sharding that device_put and jit refuse with ValueError"
            )
        else:
            harm = (
                "raises ValueError for an array without dimensions" if most is None else "raises ValueError"
            )
        yield site.finding(
            spec.place.node if replicated and spec.place.file is site.file else sharding,
            f"On {site.release('jax')} this {harm}: {written} asks for {len(spec.entries)}.",
            label=why,
            help="write P(): replicated, for every rank"
            if replicated
            else "write at most one entry a dimension",
            certainty=Certainty.POSSIBLE,
            form="rank-tested" if most is not None else "any-shape" if site.api in MAKING else "any-rank",
            why="the shape is taken from an array that may have any rank" if site.api in MAKING else "",
            fix=self._fix(site, spec, 0) if replicated else None,
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


def _is_left_alone(site: Site, value: Value) -> bool:
    """Whether filter_shard is given what is no array but a number of Python, which it hands on as it is."""
    found = options(value)
    return site.api == "equinox.filter_shard" and all(isinstance(settled(one), Constant) for one in found)
