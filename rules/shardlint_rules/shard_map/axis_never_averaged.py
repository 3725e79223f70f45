"""SL423."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.api import AXIS_AT
from shardlint.model.values import Api, Constant, Function, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk_nodes

_MAPS = ("jax.pmap", "jax.vmap")
_GRADS = ("grad", "value_and_grad")
_APPLIES = ("apply_updates", "apply_gradients", "apply_gradient")
# What may average out of sight.
_ELSEWHERE = compile_lazily(r"(?i)pmean|psum|all_?reduce|cross_replica|synchroni|average_grad|mean_grad|axis_name")
_JAX = frozenset(AXIS_AT)
_MOST = 60


class AxisNeverAveraged(Rule):
    """Gradients are never averaged over a mapped axis.

    Each copy of the model along the axis trains on different data, and the parameters drift apart. Usually the program
    saves only the first copy, so the work of the others is lost. Nothing raises.

    ## Reports
    - `other-axis` (likely): `pmap` or `vmap` with an `axis_name`, over code that takes gradients and applies them. The
      code averages over another mapped axis, and no collective names this one.

    ## Write instead
    Average over both axes, here "device" and "batch": `grads = jax.lax.pmean(grads, axis_name=("device", "batch"))`.

    ## Limits
    Not reported: code that calls a function whose name suggests that it averages, and axes that other code mentions.
    SL402 reports code that averages over no axis.
    """

    code = "SL423"
    name = "axis-never-averaged"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("other-axis",)
    assumptions: ClassVar[Mapping[str, str]] = {"other-axis": "The copies along the axis train one model."}
    behind = ("SL402", "SL403")
    triggers = (Calls(*_MAPS, file_says=("axis_name",)),)
    in_tests = False
    fixes = "none"

    @detector("call", "partial", finds="other-axis")
    def report_axis(self, site: Site) -> Finding | None:
        """The axis of a mapped function that trains a model."""
        axis = _find_axis(site)
        if axis is None or not site.file.contains_text("grad"):
            return None
        if _is_axis_mentioned(site.file, axis):
            return None
        started = _mapped_function(site)
        reached = _reached_functions(site, started) if started is not None else None
        if reached is None:
            return None
        calls = [(file, call) for file, node in reached for call in walk_nodes(node) if isinstance(call, ast.Call)]
        if any(_is_axis_mentioned(file, axis) for file, _ in reached):
            return None
        names = {last_name(call.func) for _, call in calls} | {
            last_name(call.args[0])
            for _, call in calls
            if call.args and isinstance(call.args[0], ast.Attribute)
        }
        if not names.intersection(_GRADS) or not names.intersection(_APPLIES):
            return None
        others = _find_collectives(site, calls)
        if others and not any(_ELSEWHERE.search(name) for name in names - _JAX):
            return self._make_finding(site, axis, others)
        return None

    def _make_finding(self, site: Site, axis: str, others: list[tuple[FileFacts, ast.Call, str]]) -> Finding:
        here = [other for other in others if other[0] is site.file and "grad" in site.text(other[1])]
        _, call, reduced = (
            min(here, key=lambda other: other[1].lineno) if here else (None, site.call, others[0][2])
        )
        return site.finding(
            call,
            f"The parameters drift apart along `{axis}`: gradients are averaged over `{reduced}` only.",
            label=f"not over `{axis}`" if here else "",
            help=f'write `jax.lax.pmean(grads, axis_name="{axis}")` too',
            form="other-axis",
            why=f"line {site.call.lineno} maps the step over `{axis}`, and no collective names this axis",
        )


def _find_axis(site: Site) -> str | None:
    given = site.keyword("axis_name")
    if given is None or not isinstance(given.value, ast.Constant) or not isinstance(given.value.value, str):
        return None
    return given.value.value


def _is_axis_mentioned(file: FileFacts, axis: str) -> bool:
    """Return whether a file names an axis other than to map over it."""
    if not (file.contains_text(f'"{axis}"') or file.contains_text(f"'{axis}'")):
        return False
    for node in walk_nodes(file.tree):
        if isinstance(node, ast.Constant) and node.value == axis:
            outer = file.parent(node)
            call = file.parent(outer) if isinstance(outer, ast.keyword) else None
            binds = isinstance(outer, ast.keyword) and outer.arg == "axis_name"
            if not (binds and isinstance(call, ast.Call) and _is_mapping_text(file.source_text(call))):
                return True
    return False


def _is_mapping_text(text: str) -> bool:
    return re.match(r"(functools\.)?(partial\()?\s*(jax\.)?(vmap|pmap)\b", text) is not None


def _mapped_function(site: Site) -> Place | None:
    """Return the mapped function: the argument, the decorated definition, or the function bound to a name."""
    if site.decorated is not None:
        return Place(site.file, site.decorated)
    given = site.arguments.positional
    return given[0] if given and site.form == "call" else None


def _reached_functions(site: Site, start: Place) -> list[tuple[FileFacts, ast.AST]] | None:
    """The functions whose code runs in what is mapped, as far as names tell; None where they are too many."""
    found: list[tuple[FileFacts, ast.AST]] = []
    waiting, seen = [(start.file, start.node)], set[ast.AST]()
    while waiting:
        file, node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if len(found) > _MOST:
            return None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            found.append((file, node))
        for name in walk_nodes(node):
            if isinstance(name, ast.Name | ast.Attribute) and isinstance(name.ctx, ast.Load):
                for option in options(site.program.value(file, name)):
                    if isinstance(option, Function):
                        waiting.append((option.place.file, option.node))
                    elif isinstance(inner := getattr(option, "inner", None), Function):
                        waiting.append((inner.place.file, inner.node))
    return found


def _find_collectives(
    site: Site, calls: list[tuple[FileFacts, ast.Call]]
) -> list[tuple[FileFacts, ast.Call, str]] | None:
    """The collectives among calls and the axes they name; None where one of them is not told."""
    found = []
    for file, call in calls:
        name = last_name(call.func)
        if name not in AXIS_AT:
            continue
        callee = options(site.program.value(file, call.func))
        if not all(isinstance(one, Api) and one.name == f"jax.lax.{name}" for one in callee):
            return None
        given: ast.expr | None = next((one.value for one in call.keywords if one.arg == "axis_name"), None)
        if given is None and AXIS_AT[name] < len(call.args):
            given = call.args[AXIS_AT[name]]
        value = site.program.value(file, given) if given is not None else None
        if not isinstance(value, Constant) or not isinstance(value.value, str):
            return None
        found.append((file, call, value.value))
    return found
