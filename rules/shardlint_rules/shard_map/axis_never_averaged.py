"""SL423."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.manual.collectives import AXIS_AT
from shardlint.model.values import Api, Constant, Function, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.shard_map._siblings import REDUCES, axis_left_out, sum_among_means
from shardlint_rules.shard_map.beside_means import GRADS, SAYS, unaveraged

_MAPS = ("jax.pmap", "jax.vmap")
_GRADS = ("grad", "value_and_grad")
_APPLIES = ("apply_updates", "apply_gradients", "apply_gradient")
# What may average out of sight.
_ELSEWHERE = regex(r"(?i)pmean|psum|all_?reduce|cross_replica|synchroni|average_grad|mean_grad|axis_name")
_JAX = frozenset(AXIS_AT)
_MOST = 60


class AxisNeverAveraged(Rule):
    """A training step is mapped over a named axis, and its gradients are not averaged over it.

    ## What it does
    Reports `pmap` and `vmap` with an `axis_name` over code that takes gradients and applies them to parameters, where
    collectives name another axis that the code is mapped over too, and none names this one (SL402 reports code that
    averages over none). So it does for gradients that a function applies as they are, while it averages its loss or
    other measures over the devices; and for gradients that are averaged over one axis, where those beside them are
    averaged over that and another one, or that are added up, where those are averaged.

    ## Why it hurts
    Each copy along the axis trains on its own part of the data, and their parameters drift apart. What is saved or
    shown is usually that of the first copy: the rest of the work is lost. Nothing is raised.

    ## Use instead
    `grads = jax.lax.pmean(grads, axis_name=("device", "batch"))`: the mean over both.

    ## Evidence
    The proof compares the parameters with those of one device. Left alone: code that calls what may average out of
    sight, by its name, and axes that anything else mentions.
    """

    code = "SL423"
    name = "axis-never-averaged"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("other-axis", "beside", "sibling")
    behind = ("SL402", "SL403")
    triggers = (Calls(*_MAPS, file_says=("axis_name",)), Calls(*GRADS, file_says=SAYS), REDUCES)
    forms = ("call", "partial")
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for an axis of a file, or for the gradients of a function."""
        if site.api in GRADS:
            yield from self._beside(site)
            return
        if site.api not in _MAPS:
            yield from self._sibling(site)
            return
        axis = _axis(site)
        if axis is None or not site.file.says("grad"):
            return
        if _mentioned(site.file, axis):
            return
        started = _mapped(site)
        reached = _reached(site, started) if started is not None else None
        if reached is None:
            return
        calls = [(file, call) for file, node in reached for call in walk(node) if isinstance(call, ast.Call)]
        if any(_mentioned(file, axis) for file, _ in reached):
            return
        names = {last_name(call.func) for _, call in calls} | {
            last_name(call.args[0])
            for _, call in calls
            if call.args and isinstance(call.args[0], ast.Attribute)
        }
        if not names.intersection(_GRADS) or not names.intersection(_APPLIES):
            return
        others = _collectives(site, calls)
        if others and not any(_ELSEWHERE.search(name) for name in names - _JAX):
            yield self._finding(site, axis, others)

    def _beside(self, site: Site) -> Iterator[Finding]:
        """Gradients that are applied where a mean over the devices is taken of something else alone."""
        found = unaveraged(site) if site.wants("beside") else None
        if found is None:
            return
        yield site.finding(
            found.applied,
            f"On {site.release('jax')} every device updates its parameters with the gradients of its own part of the "
            "batch: they drift apart, and what is saved is the first one's.",
            label=f"`{found.gradients}` is not averaged, and `{found.what}` is (line {found.mean.lineno})",
            help=f"average the gradients as well: {found.gradients} = jax.lax.pmean({found.gradients}, axis_name)",
            form="beside",
            why=f"the function runs on each device: it reduces `{found.what}` over them",
        )

    def _sibling(self, site: Site) -> Iterator[Finding]:
        """Gradients that are averaged over fewer axes than others of the step."""
        found = axis_left_out(site) if site.form == "call" and site.wants("sibling") else None
        if found is not None:
            yield site.finding(
                site.call,
                f'On {site.release("jax")} the copies that are mapped over "{found.axis}" each update these parameters '
                "with the gradients of their own part of the data: they drift apart, and nothing is raised.",
                label=f'`{found.names}` is not averaged over "{found.axis}", as others are (line {found.other.call.lineno})',
                help=f'average it over that too: jax.lax.pmean(..., axis_name="{found.axis}")',
                form="sibling",
                why="the step averages the gradients beside it over both axes",
            )
        added = sum_among_means(site) if site.form == "call" and site.wants("sibling") else None
        if added is not None:
            yield site.finding(
                site.call.func,
                f"On {site.release('jax')} these gradients are as many times those of the others as there are copies "
                f'along "{added.axis}", and so is each step of plain SGD.',
                label=f"adds up `{added.names}`, and line {added.other.call.lineno} takes a mean",
                help="write jax.lax.pmean",
                form="sibling",
                why="the step averages gradients otherwise, and nothing divides this sum",
            )

    def _finding(self, site: Site, axis: str, others: list[tuple[FileFacts, ast.Call, str]]) -> Finding:
        here = [one for one in others if one[0] is site.file and "grad" in site.text(one[1])]
        help = f'average the gradients over it too: jax.lax.pmean(grads, axis_name="{axis}")'
        if here:
            _, call, other = min(here, key=lambda one: one[1].lineno)
            return site.finding(
                call,
                f'On {site.release("jax")} the copies that are mapped over "{axis}" at line {site.call.lineno} each '
                "train on their own part of the data, and their parameters drift apart.",
                label=f'over "{other}" and not over "{axis}"',
                help=help,
                form="other-axis",
                why=f'this runs mapped over both axes, and nothing names "{axis}"',
            )
        return site.finding(
            site.call,
            f"On {site.release('jax')} the mapped copies each train on their own part of the data, and their "
            f'parameters drift apart: gradients are averaged over "{others[0][2]}" only.',
            label=f'nothing is averaged over "{axis}"',
            help=help,
            form="other-axis",
            why=f'this runs mapped over both axes, and nothing names "{axis}"',
        )


def _axis(site: Site) -> str | None:
    given = site.keyword("axis_name")
    if given is None or not isinstance(given.value, ast.Constant) or not isinstance(given.value.value, str):
        return None
    return given.value.value


def _mentioned(file: FileFacts, axis: str) -> bool:
    """Whether a file says the name of an axis otherwise than to map over it."""
    if not (file.says(f'"{axis}"') or file.says(f"'{axis}'")):
        return False
    for node in walk(file.tree):
        if isinstance(node, ast.Constant) and node.value == axis:
            outer = file.parent(node)
            call = file.parent(outer) if isinstance(outer, ast.keyword) else None
            binds = isinstance(outer, ast.keyword) and outer.arg == "axis_name"
            if not (binds and isinstance(call, ast.Call) and _maps(file.text(call))):
                return True
    return False


def _maps(text: str) -> bool:
    return re.match(r"(functools\.)?(partial\()?\s*(jax\.)?(vmap|pmap)\b", text) is not None


def _mapped(site: Site) -> Place | None:
    """What is mapped: a function that is given or decorated, or the one that a name stands for."""
    if site.decorated is not None:
        return Place(site.file, site.decorated)
    given = site.arguments.positional
    return given[0] if given and site.form == "call" else None


def _reached(site: Site, start: Place) -> list[tuple[FileFacts, ast.AST]] | None:
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
        for name in walk(node):
            if isinstance(name, ast.Name | ast.Attribute) and isinstance(name.ctx, ast.Load):
                for option in options(site.program.value(file, name)):
                    if isinstance(option, Function):
                        waiting.append((option.place.file, option.node))
                    elif isinstance(inner := getattr(option, "inner", None), Function):
                        waiting.append((inner.place.file, inner.node))
    return found


def _collectives(
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
