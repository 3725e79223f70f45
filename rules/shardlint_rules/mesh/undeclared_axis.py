"""SL340."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator
from itertools import chain

from shardlint.model.api import AXIS_AT, COLLECTIVES
from shardlint.model.values import Constant, Items, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Safety, Violates, detector
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.mesh.spec_arguments import (
    LOGICAL_NAMES,
    TAKERS,
    WAKES,
    SpecArgument,
    given_specs,
    is_written_axis,
    may_axis_be_bound,
    named_axes,
    node_of_axis,
)

_SPEC = "jax.sharding.PartitionSpec"
_MESHES = ("jax.sharding.Mesh", "jax.make_mesh", "jax.sharding.AbstractMesh")
_NEAR = 0.7
_COLLECTIVE = "This collective raises in the `shard_map`"


@dataclass(frozen=True)
class _UndeclaredAxis:
    """An axis that some code names: where, beside which others, and what happens over a mesh without it."""

    node: ast.AST
    axis: str
    beside: tuple[str, ...]
    happens: str
    certain: bool = True


class UndeclaredAxis(Rule):
    """Code names a mesh axis that the shardlint setting `axis-names` does not list.

    A sharding with this name raises `ValueError: Resource axis ... is not found in mesh`. A collective with this name
    raises when it is traced. The setting lists all mesh axes of the project.

    ## Reports
    - proven: an unlisted axis in a `PartitionSpec`, or in the axis names of a `Mesh`, `make_mesh` or `AbstractMesh`.
    - proven: an unlisted axis in `axis_names` or `auto` of `shard_map`, or in a collective that runs under `shard_map`.
    - possible: an unlisted axis in a spec, if the code does not show how the spec is used and none of its axes is
      listed.

    ## Fix
    Replaces a literal name by the only similar axis of the project. It is unsafe: another axis may be meant.

    ## Limits
    Not reported: logical names, and the axes of `pmap` and `vmap`. In tests, and in a collective without a
    visible `shard_map`, only a name that is similar to a listed axis is reported. SL301 and SL406 report an axis that
    the mesh of the call lacks.
    """

    code = "SL340"
    name = "undeclared-axis"
    harm = Harm.CRASH
    setting = "axis-names"
    behind = ("SL301", "SL406")
    triggers = (
        *WAKES,
        Calls(_SPEC, *_MESHES, *sorted(COLLECTIVES)),
        Violates("collective.elsewhere", is_conditional=False),
    )
    fixes = "unsafe"
    by_hand = "shardlint cannot tell which axis is meant"

    @detector("call", of=_SPEC)
    def check_spec_axes(self, site: Site) -> Iterator[Finding]:
        """The axes of a spec."""
        return self._compare_axes(site, _list_in_spec(site))

    @detector("call", "partial", of=_MESHES)
    def check_mesh_axes(self, site: Site) -> Iterator[Finding]:
        """The axes of a mesh."""
        node = site.argument("axis_names")
        names = _list_written(site, node, "A spec with this axis raises ValueError") if node is not None else ()
        return self._compare_axes(site, names)

    @detector("call", "partial", of=tuple(COLLECTIVES))
    def check_collective_axes(self, site: Site) -> Iterator[Finding]:
        """The axes of a collective, wherever it is."""
        return self._compare_axes(site, _list_in_collective(site))

    @detector("call", "partial", of=tuple(TAKERS))
    def check_argument_axes(self, site: Site) -> Iterator[Finding]:
        """The axes of specs that are given to what reads them against a mesh."""
        return self._compare_axes(site, chain(_find_axes_in_receiver(site), _list_in_mapped(site)))

    @detector("violation")
    def compare_mapped_collective(self, site: Site) -> Iterator[Finding]:
        """A collective in a mapped function over an axis that is not among the project's."""
        axis = site.violation.said["axis"]
        return self._compare_axes(site, [_UndeclaredAxis(_axis_node(site.syntax, axis), axis, (), _COLLECTIVE)])

    def _compare_axes(self, site: Site, names: Iterable[_UndeclaredAxis]) -> Iterator[Finding]:
        is_test = site.program.project.is_test(site.file.path)
        for one in names:
            if one.axis not in site.program.own.axes and one.axis.isidentifier():
                if not is_test or _similar_axes(site, one):
                    yield self._report_axis(site, one)

    def _report_axis(self, site: Site, undeclared_axis: _UndeclaredAxis) -> Finding:
        axes = site.program.own.axes
        meant = _similar_axes(site, undeclared_axis)
        fix = None
        if len(meant) == 1 and is_written_axis(undeclared_axis.node, undeclared_axis.axis):
            quote = site.text(undeclared_axis.node)[0]
            if quote in "\"'":
                text = f"{quote}{meant[0]}{quote}"
                edit = site.replace(undeclared_axis.node, text)
                fix = site.fix(
                    Safety.UNSAFE,
                    f"write {text}",
                    [edit],
                    why="another axis may be meant",
                )
        return site.finding(
            undeclared_axis.node,
            f'{undeclared_axis.happens}: the shardlint setting `axis-names` does not list "{undeclared_axis.axis}".',
            label=f'did you mean "{meant[0]}"?' if len(meant) == 1 else "",
            help=f"write one of {', '.join(axes)}, or add the axis to the shardlint setting `axis-names`",
            why=f"the setting lists {', '.join(axes)}; checked on {site.release('jax')}",
            fix=fix,
            certainty=Certainty.PROVEN if undeclared_axis.certain else Certainty.POSSIBLE,
        )


def _similar_axes(site: Site, undeclared_axis: _UndeclaredAxis) -> list[str]:
    """The project's axes that are nearly the same, and not named beside it."""
    near = difflib.get_close_matches(undeclared_axis.axis, site.program.own.axes, n=2, cutoff=_NEAR)
    return [axis for axis in near if axis not in undeclared_axis.beside]


def _describe_error(site: Site) -> str:
    return (
        "`shard_map` raises" if site.api == "jax.shard_map" else "A sharding with this spec raises ValueError"
    )


def _find_axes_in_receiver(site: Site) -> Iterator[_UndeclaredAxis]:
    """Axes of specs that are given to what reads them against a mesh."""
    elsewhere = any(site.argument(name) is not None for name in TAKERS[site.api]) and _has_logical(site)
    for one in given_specs(site):
        names = tuple(axis for _, axis in named_axes(one.spec))
        for entry, axis in named_axes(one.spec):
            # Unless names may be logical, a spec in another file is reported there.
            if entry.place is None or entry.place.file is site.file or elsewhere:
                yield _UndeclaredAxis(
                    node_of_axis(site, one, entry, axis), axis, names, _describe_error(site), one.certain
                )


def _list_in_spec(site: Site) -> Iterator[_UndeclaredAxis]:
    """Axes of a spec, whatever it is given to."""
    spec = site.spec_of(site.value(site.call))
    if spec is None or _has_logical(site):
        return
    names = tuple(axis for _, axis in named_axes(spec))
    of_mesh = any(axis in site.program.own.axes for axis in names)
    for entry, axis in named_axes(spec):
        one = SpecArgument(spec, site.call, True)
        found = _UndeclaredAxis(node_of_axis(site, one, entry, axis), axis, names, _describe_error(site))
        certain = of_mesh or bool(_similar_axes(site, found))
        yield found if certain else _UndeclaredAxis(found.node, axis, names, found.happens, certain=False)


def _list_in_mapped(site: Site) -> Iterator[_UndeclaredAxis]:
    """Axes that `shard_map` is told are manual, or are not."""
    for name in ("axis_names", "auto"):
        keyword = site.keyword(name)
        if keyword is not None:
            yield from _list_written(site, keyword.value, "`shard_map` raises")


def _list_in_collective(site: Site) -> Iterator[_UndeclaredAxis]:
    """A name that is nearly one of the project's; others may be bound by what is not in sight."""
    at = AXIS_AT[site.api.removeprefix("jax.lax.")]
    keyword = site.keyword("axis_name")
    given = site.arguments.positional[at : at + 1]
    node = (
        keyword.value
        if keyword is not None
        else next((one.node for one in given if one.file is site.file), None)
    )
    for one in _list_written(site, node, _COLLECTIVE) if isinstance(node, ast.expr) else ():
        if len(_similar_axes(site, one)) == 1 and not may_axis_be_bound(site, one.axis):
            yield one


def _axis_node(call: ast.AST, axis: str) -> ast.AST:
    """Where a call names an axis, if it is written out there; else the call."""
    return next((part for part in walk_nodes(call) if is_written_axis(part, axis)), call)


def _list_written(site: Site, node: ast.expr, happens: str) -> Iterator[_UndeclaredAxis]:
    """The names in an argument that is a name or a tuple, list or set of names, each with its own part of the text."""
    inner = node
    while (
        isinstance(inner, ast.Call) and inner.args and site.text(inner.func) in ("frozenset", "set", "tuple")
    ):
        inner = inner.args[0]
    parts = inner.elts if isinstance(inner, ast.Tuple | ast.List | ast.Set) else [inner]
    values = [site.value(part) for part in parts]
    found = [
        (part, axis, len(options(value)) == 1)
        for part, value in zip(parts, values, strict=True)
        for option in options(value)
        for axis in (option.items if isinstance(option, Items) else (option,))
    ]
    names = tuple(
        one.value for _, one, _ in found if isinstance(one, Constant) and isinstance(one.value, str)
    )
    for part, one, certain in found:
        if isinstance(one, Constant) and isinstance(one.value, str):
            yield _UndeclaredAxis(part, one.value, names, happens, certain)


def _has_logical(site: Site) -> bool:
    """Return whether specs here may contain names of dimensions that are no mesh axes."""
    return site.program.project.is_text_in_files(site.file.path, *LOGICAL_NAMES)
