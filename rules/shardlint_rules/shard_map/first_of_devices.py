"""SL415."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.processes.conditions import find_process_guard
from shardlint.facts.repeated import loop_around, runs_rarely
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily

# What people call an array with one entry for each device, and what takes the first of them.
_SAYS = compile_lazily(r"replicat|pmap|per_?device|device_metrics|all_devices|first_device|deduplicate_devices", re.I)
_OTHERWISE = compile_lazily(r"scanned|scan_|stacked_layers", re.I)


class FirstOfDevices(Rule):
    """`x[0]` of a `pmap` result runs on every device and leaves a copy on each.

    From jax 0.8.1 `pmap` is built on `jax.shard_map`, and its results are global arrays. `x[0]` compiles a program for
    all devices, one for each leaf.

    ## Reports
    - `first` (likely): `jax.tree.map(lambda x: x[0], tree)` of a result of a pmapped function or of `replicate`. In a
      project that uses `pmap`, also of a tree, if its name or the docstring of the function says that it is replicated.

    ## Write instead
    `x.addressable_shards[0].data.squeeze(0)` reads the entry of the first device, and runs on this device only.

    ## Limits
    Not reported: code at module level outside of loops, and code under a test such as `if step % n == 0` in a loop.
    """

    code = "SL415"
    name = "first-of-devices"
    harm = Harm.COST
    certainty = Certainty.POSSIBLE
    likely = ("first",)
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.8.1"}
    triggers = (Calls("jax.tree.map"),)
    project_says = ("pmap",)
    fixes = "none"

    @detector("call", finds="first")
    def report_index(self, site: Site) -> Finding | None:
        """The first entry that is taken of each array of a tree."""
        taken = _find_first(site.call)
        if taken is None or not site.is_named_anywhere("pmap") or self._handles_both_cases(site) or _runs_seldom(site):
            return None
        read, tree = taken
        made = next((one for one in site.violations if one.kind == "rows.first" and one.place.node is read), None)
        said = _word_around_call(site, tree) if made is None else ""
        if made is None and not said:
            return None
        source = f"line {made.said['line']} made `{site.shown(tree)}`" if made else f"`{said}` names such an array"
        return site.finding(
            site.call,
            "`x[0]` on a pmap output runs on every device and leaves a full copy on each.",
            label="one program per leaf",
            help="write `lambda x: x.addressable_shards[0].data.squeeze(0)`",
            why=f"since jax 0.8.1 a pmap output is one global array; {source}",
        )

    def _handles_both_cases(self, site: Site) -> bool:
        """Return whether the function uses the shards if it can, and this code for the remaining cases."""
        scope = site.scope.enclosing_function()
        text = site.text(scope.node) if scope is not None else ""
        return "addressable" in text or "jax_pmap_shmap_merge" in text


def _runs_seldom(site: Site) -> bool:
    """True for code that runs once, at module level, or in every n-th iteration of a loop.

    Not on one process alone, where such a program waits for the others.
    """
    if find_process_guard(site.program, site.file, site.call) is not None:
        return False
    loop = loop_around(site.file, site.call)
    if loop is None:
        return site.scope.enclosing_function() is None
    return runs_rarely(site.file, site.call, loop)


def _find_first(call: ast.Call) -> tuple[ast.Subscript, ast.expr] | None:
    """The `x[0]` of `jax.tree.map(lambda x: x[0], tree)`, and the tree."""
    match call:
        case ast.Call(args=[ast.Lambda(args=ast.arguments(args=[ast.arg(arg=name)]), body=body), tree], keywords=[]):
            match body:
                case ast.Subscript(value=ast.Name(id=taken), slice=ast.Constant(value=0)) if name == taken:
                    return body, tree
    return None


def _word_around_call(site: Site, tree: ast.expr) -> str:
    """The word around the call that says what it takes the first entries of."""
    texts = [site.text(tree), *_names_around(site)]
    if any(_OTHERWISE.search(text) for text in texts):
        return ""
    found = (_SAYS.search(text) for text in texts)
    return next((one.group() for one in found if one is not None), "")


def _names_around(site: Site) -> Iterator[str]:
    """Yield the names in the code around a call: its function, the targets of its result, and the function's
    docstring.
    """
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.Assign):
            yield from (site.text(target) for target in outer.targets)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            yield outer.name
            yield ast.get_docstring(outer) or ""
            return
