"""SL425."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.reach import lookup
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk

_CONSTRAINTS = ("jax.lax.with_sharding_constraint", "flax.linen.with_logical_constraint")
# What tells that the function knows of manual axes, or is for one kind of mesh.
_KNOWS = regex(r"manual|auto_axes|axis_types|axis_type\b|AxisType|shard_map|pmap|core\.get_axis_env", re.I)
_ASKS = regex(r"physical_mesh|get_abstract_mesh\(|get_concrete_mesh\(|get_mesh\(")
_MOST = 60  # lines of what is a wrapper


class WrapperIgnoresManual(Rule):
    """A wrapper of `with_sharding_constraint` looks at the mesh, and not at which of its axes are manual.

    ## What it does
    Reports a function that places an array by a spec it is given, where it first asks whether there is a mesh and gives
    the array back if there is none, in a project with `shard_map`; and one that calls
    `flax.linen.with_logical_constraint` or `with_sharding_constraint` itself beside a wrapper, in the same file, that
    leaves manual axes out.

    ## Why it hurts
    The body of a `shard_map` has a mesh too, and its axes are manual there. A layer that is run in one, and calls the
    wrapper with a spec that names one of them, raises ValueError when it is traced. The same layer works outside.

    ## Use instead
    Leave out of the spec the axes in `jax.sharding.get_abstract_mesh().manual_axes`.

    ## Evidence
    Run on jax 0.7.2 to 0.12, under `with mesh:` and `jax.set_mesh`, and for logical names. Functions that say
    anything of manual axes or axis types are left alone.
    """

    code = "SL425"
    name = "wrapper-ignores-manual"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("beside",)
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.7.1"}
    triggers = (Calls(*_CONSTRAINTS, file_says=(".empty", "manual_axes")),)
    forms = ("call",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call in a wrapper."""
        function = next(
            (one for one in site.file.ancestors(site.call) if isinstance(one, ast.FunctionDef)), None
        )
        if (
            function is None
            or (function.end_lineno or 0) - function.lineno > _MOST
            or not _hands_on(site, function)
        ):
            return
        text = site.text(function)
        if _KNOWS.search(text) or not _last(site, function):
            return
        maps = site.anywhere("shard_map")
        # What is called like the library's function stands in for it everywhere.
        if not maps and "with_sharding_constraint" not in function.name:
            return
        beside = _beside(site.file, function)
        guarded = ".empty" in text and _ASKS.search(text) is not None
        if not beside and not guarded:
            return
        what = "logical names" if "logical" in site.api else "a spec"
        yield site.finding(
            site.call,
            f"not as in `{beside}`, which leaves manual axes out"
            if beside
            else "manual axes are not left out",
            f"On {site.release('jax')} {what} of an axis that is manual raises ValueError when this is called in the "
            "body of a shard_map.",
            help=f"constrain by `{beside}`"
            if beside
            else "leave out the axes in `jax.sharding.get_abstract_mesh().manual_axes`",
            form="beside" if beside else "wrapper",
            why="the project maps with shard_map"
            if maps
            else "it stands in for with_sharding_constraint everywhere",
        )


def _hands_on(site: Site, function: ast.FunctionDef) -> bool:
    """Whether both the array and what it is constrained to are given to the function."""
    args = function.args
    names = {one.arg for one in (*args.posonlyargs, *args.args, *args.kwonlyargs)} - {"self", "cls"}
    given = [
        *site.call.args,
        *(one.value for one in site.call.keywords if one.arg not in ("mesh", "fallback")),
    ]
    if args.vararg is not None:
        names.add(args.vararg.arg)
    return len(given) > 1 and all(_made_of(site.file, one, names, 0) for one in given[:2])


def _last(site: Site, function: ast.FunctionDef) -> bool:
    """Whether it is the last constraint of its function: those before it are for special cases."""
    name = last_name(site.call.func)
    calls = [one for one in walk(function) if isinstance(one, ast.Call) and last_name(one.func) == name]
    return max(calls, key=lambda one: one.lineno) is site.call


def _made_of(file: FileFacts, node: ast.expr, names: set[str], depth: int) -> bool:
    for part in walk(node):
        if not isinstance(part, ast.Name):
            continue
        if part.id in names:
            return True
        bindings = lookup(file, part, part.id)[0] if depth < 2 else []
        if any(one.value is not None and _made_of(file, one.value, names, depth + 1) for one in bindings):
            return True
    return False


def _beside(file: FileFacts, function: ast.FunctionDef) -> str:
    """The wrapper in the same file that leaves manual axes out."""
    if not file.says("manual_axes"):
        return ""
    for node in file.tree.body:
        if (
            isinstance(node, ast.FunctionDef)
            and node is not function
            and re.search(r"\bmanual_axes", file.text(node))
        ):
            calls = (last_name(one.func) for one in walk(node) if isinstance(one, ast.Call))
            if "with_sharding_constraint" in calls:
                return node.name
    return ""
