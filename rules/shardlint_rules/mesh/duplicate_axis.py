"""SL302."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.made_meshes import shared_named_meshes
from shardlint.model.mesh.meshes import Spec, spec_entry
from shardlint.model.values import Api, Parameter, Unknown, Value, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.bindings import lookup_bindings
from shardlint_rules.mesh.spec_arguments import (
    TAKERS,
    WAKES,
    SpecArgument,
    given_specs,
    named_axes,
    node_of_axis,
)

_SPEC = "jax.sharding.PartitionSpec"


class DuplicateAxis(Rule):
    """A spec names one mesh axis twice.

    A mesh axis can shard only one dimension. `PartitionSpec("data", "data")` is accepted, but a sharding with this spec
    raises `DuplicateSpecError` (`ValueError` up to jax 0.4.38).

    ## Reports
    - proven: a `PartitionSpec` with the same axis twice, in `NamedSharding`, a constraint, `device_put`, the shardings
      of a jit or the specs of `shard_map`.
    - proven: a Variable of flax NNX that names the same axis twice. Flax shards a Variable when it creates the
      Variable.
    - `by-name` (likely): a spec of constants or fields (`P(config.batch_axis, config.length_axis)`), if two of them
      name the same mesh axis.
    - `unknown-callee` (likely): a spec with the same axis twice that is passed to a function which shardlint cannot
      read. Also such a spec in a table of partition rules, after a pattern.

    ## Limits
    Not reported: specs of logical names, which may repeat a name, and a repeated `P.UNCONSTRAINED`.
    """

    code = "SL302"
    name = "duplicate-axis"
    harm = Harm.CRASH
    assumes = True
    likely = ("by-name", "unknown-callee")
    assumptions: ClassVar[Mapping[str, str]] = {
        "by-name": "The fields have the values that the code assigns to them.",
        "unknown-callee": "The names in the spec are mesh axes, not logical names.",
    }
    triggers = (*WAKES, Calls(_SPEC), Violates("axis.twice"))

    @detector("call", "partial", of=tuple(TAKERS))
    def find_repeated_axis(self, site: Site) -> Iterator[Finding]:
        """Each axis that a spec names again."""
        for one in given_specs(site):
            for axis in _repeated_axes(one.spec):
                yield self._report_repeated(site, one, axis)

    @detector("violation")
    def report_variable(self, site: Site) -> Finding:
        """A Variable of flax NNX that is placed when it is made."""
        said = site.violation.said
        return site.report_violation(
            f'This raises DuplicateSpecError: mesh axis "{said["axis"]}" shards two dimensions.',
            help=f'keep "{said["axis"]}" for one dimension, and write None or another axis for the rest',
            why=f"the names of the Variable are {said['spec']}, and the mesh is made at line {said['line']}",
        )

    @detector("call", of=_SPEC, finds="by-name")
    def report_fields(self, site: Site) -> Finding | None:
        """A spec of constants and fields, wherever it is given: two of them hold one axis of a mesh."""
        parts = [(one, _list_axes(site, one)) for one in site.call.args]
        several = [one for one, variants in parts if len(variants) > 1]
        found = [
            (one, before, axis)
            for number, (one, variants) in enumerate(parts)
            for before, others in parts[:number]
            for axis in sorted({a for v in variants for a in v} & {a for v in others for a in v})
            if not isinstance(one, ast.Constant | ast.Tuple)
            and not isinstance(before, ast.Constant | ast.Tuple)
        ]
        # What two of them are in one variant, the text does not tell.
        if not found or len(several) > 1 or not _are_both_attributes(site, found[0][:2]):
            return None
        one, before, axis = found[0]
        meshes = shared_named_meshes(site.program, site.file)
        if not any(axis in mesh.axes for mesh in meshes):
            return None
        return site.finding(
            _find_source(site, one),
            "A sharding with this spec raises DuplicateSpecError: "
            f'`{site.shown(before)}` and `{site.shown(one)}` are both "{axis}".',
            label=f'"{axis}" again',
            help="write another axis, or None, for one of them",
            why=f'both have the value "{axis}" {"in one variant of their class" if several else "by default"}, and a '
            "mesh axis shards one dimension only",
        )

    @detector("call", of=_SPEC, finds="unknown-callee")
    def report_spec(self, site: Site) -> Finding | None:
        """A spec that says an axis twice and is handed to what is not known here, or stands in a table of rules."""
        if "logical" in site.text(site.file.statement(site.call)):
            return None
        spec = site.spec_of(site.value(site.call))
        again = _repeated_axes(spec) if spec is not None else []
        if spec is None or not again or not _is_passed_to_unknown(site) or site.program.project.is_test(site.file.path):
            return None
        return site.finding(
            site.call,
            f'A sharding with this spec raises DuplicateSpecError: mesh axis "{again[0]}" shards two dimensions.',
            label=f'"{again[0]}" twice',
            help=f'keep "{again[0]}" for one dimension, and write None or another axis for the rest',
            why="a mesh axis shards one dimension only, and nothing marks these names as logical",
        )

    def _report_repeated(self, site: Site, argument: SpecArgument, axis: str) -> Finding:
        mentions = [entry for entry, name in named_axes(argument.spec) if name == axis]
        again = mentions[1]
        nth = 1 if again is mentions[0] else 0  # twice inside one tuple
        node = node_of_axis(site, argument, again, axis, nth)
        error = "DuplicateSpecError" if site.allows("jax", ">=0.5.3") else "ValueError"
        return site.finding(
            node,
            f'This raises {error}: the spec names mesh axis "{axis}" {len(mentions)} times.',
            label=f'"{axis}" again',
            help=f'keep "{axis}" once, and write None or another axis in the other places',
            why=f"the spec is {_format_spec(argument.spec)}, and on {site.release('jax')} a mesh axis shards one "
            "dimension only",
        )


def _format_spec(spec: Spec) -> str:
    """A spec as it is written; one that is made of other values by what they are."""
    if all(entry.place is not None for entry in spec.entries):
        return " ".join(spec.place.source_text().split())
    axes = [entry.axes[0] if len(entry.axes) == 1 else entry.axes or None for entry in spec.entries]
    shown = [repr(one) if entry.known else "..." for entry, one in zip(spec.entries, axes, strict=True)]
    return f"P({', '.join(shown)})"


def _is_passed_to_unknown(site: Site) -> bool:
    """Return whether a spec is an argument of a call of something unknown, or the second of a pair with a pattern."""
    parent = site.file.parent(site.call)
    outer = site.file.parent(parent) if isinstance(parent, ast.keyword) else parent
    if isinstance(parent, ast.Tuple) and len(parent.elts) == 2 and parent.elts[1] is site.call:
        return isinstance(site.file.parent(parent), ast.Tuple | ast.List) and _is_pattern(parent.elts[0])
    return isinstance(outer, ast.Call) and all(_is_strange(one) for one in options(site.value(outer.func)))


def _is_strange(value: Value) -> bool:
    """Return whether the called function is unknown. For known library functions the names may be logical."""
    if isinstance(value, Api):
        return value.name.partition(".")[0] not in ("jax", "flax", "equinox", "haliax", "keras", "chex")
    return isinstance(value, Parameter | Unknown)


def _is_pattern(node: ast.expr) -> bool:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in parts)


def _repeated_axes(spec: Spec) -> list[str]:
    counted = Counter(axis for _, axis in named_axes(spec))
    return [axis for axis, times in counted.items() if times > 1 and axis]


def _list_axes(site: Site, node: ast.expr) -> list[tuple[str, ...]]:
    """The axes of an entry, in each of its variants."""
    entries = [spec_entry(one) for one in options(site.value(node))]
    return [one.axes for one in entries] if all(one.known for one in entries) else []


def _are_both_attributes(site: Site, pair: tuple[ast.expr, ...]) -> bool:
    """Return whether both are fields or constants of a class or module, themselves or by a name for one."""
    return all(isinstance(_find_source(site, one), ast.Attribute) for one in pair) and len(
        {site.text(_find_source(site, one)) for one in pair}
    ) == len(pair)


def _find_source(site: Site, node: ast.expr) -> ast.expr:
    """Return the definition of a local name that is bound once."""
    if not isinstance(node, ast.Name):
        return node
    bindings, _ = lookup_bindings(site.file, node, node.id)
    if len(bindings) != 1 or bindings[0].kind not in ("assign", "unpack"):
        return node
    statement = site.file.statement(bindings[0].node)
    if not isinstance(statement, ast.Assign):
        return node
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = zip(target.elts, value.elts, strict=True)
        return next((v for t, v in pairs if isinstance(t, ast.Name) and t.id == node.id), node)
    return value
