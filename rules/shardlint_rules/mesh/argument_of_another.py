"""SL331."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.signatures import of_definition
from shardlint.model.values import ClassValue, Function, Value, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax.nodes import children

_NAMES = (
    "mesh",
    "devices",
    "sharding",
    "shardings",
    "spec",
    "specs",
    "pspec",
    "partition_spec",
    "partition_specs",
    "rules",
    "logical_axis_rules",
    "mesh_shape",
    "axis_names",
    "mesh_axes",
)
_WORDS = "|".join(_NAMES)
_STEMS = tuple(one for one in _NAMES if not any(other != one and other in one for other in _NAMES))
_SAYS = rf"(?:{_WORDS})\b\s*[,)]"
_BY_POSITION = regex(rf"(?:[(,]|#[^\n#]*+)\s*(?:{_WORDS})\s*[,)]")
# Called so on both sides, or a list of them.
_LIKE = ({"spec", "pspec", "partition_spec", "sharding"}, {"specs", "partition_specs", "shardings"})


class ArgumentOfAnother(Rule):
    """A mesh, device list or sharding is given by position in the place of another parameter.

    ## What it does
    Reports a positional argument called `mesh`, `devices`, `sharding`, `spec`, `rules` or the like, in a call of a
    function of the project, that meets a parameter of another name, where the function has a parameter of just that
    name and the call does not give it.

    ## Why it hurts
    The function takes a list of devices for a mesh: mostly `AttributeError`, later and elsewhere. And the parameter
    that was meant keeps its default.

    ## Evidence
    The proof raises. Left alone: functions that are not found, parameters that are the same by another name, and calls
    that spread arguments.
    """

    code = "SL331"
    name = "argument-of-another-parameter"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("named",)
    triggers = (
        # From the nearest call only.
        Lines(
            rf"(?:)[^#\n]*\w\([^#\n(]*(?:(?<!\w)\([^#\n(]*)*\b(?:{_WORDS})\b",
            file_says=_SAYS,
            saying=_STEMS,
        ),
        Lines(r"[^#\n]*(?<=\w)\($", file_says=_SAYS, saying=("(\n",)),
    )
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each argument in the place of another."""
        if not _BY_POSITION.search(site.text(site.syntax)):
            return
        for call in _calls(site.syntax):
            places = [n for n, one in enumerate(call.args) if isinstance(one, ast.Name) and one.id in _NAMES]
            spreads = any(isinstance(one, ast.Starred) for one in call.args)
            if not places or spreads or any(one.arg is None for one in call.keywords):
                continue
            found = options(site.value(call.func))
            taken, named = _parameters(site, found[0]) if len(found) == 1 else ([], [])
            for place in places:
                argument = call.args[place]
                if place >= len(taken) or not isinstance(argument, ast.Name):
                    continue
                wanted, given = taken[place], {one.arg for one in call.keywords}
                later = argument.id in (*taken[len(call.args) :], *named)
                if wanted != argument.id and later and argument.id not in given:
                    if not any({wanted, argument.id} <= like for like in _LIKE):
                        yield self._finding(site, call, argument, wanted)

    def _finding(self, site: Site, call: ast.Call, argument: ast.Name, wanted: str) -> Finding:
        called = site.text(call.func)
        return site.finding(
            argument,
            f"`{called}` takes this as `{wanted}`",
            f"`{argument.id}` is given in the place of `{wanted}`, and the parameter `{argument.id}` is not given.",
            help=f"write {argument.id}={argument.id}",
            certainty=Certainty.POSSIBLE,
            form="named",
            why=f"`{called}` has a parameter called `{argument.id}`, further on",
        )


def _calls(statement: ast.AST) -> Iterator[ast.Call]:
    """The calls of a statement, without those of the statements in it."""
    todo = [statement]
    for node in todo:
        for child in children(node):
            if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                todo.append(child)
        if isinstance(node, ast.Call):
            yield node


def _parameters(site: Site, value: Value) -> tuple[list[str], list[str]]:
    """What a function, method or class of the project takes by position, and what by keyword alone."""
    if isinstance(value, ClassValue):
        init = site.program.evaluator.classes.objects.init(value)
        if init is None:
            return [], []
        value = Function(init.place, True, value)
    if not isinstance(value, Function) or not isinstance(value.node, ast.FunctionDef):
        return [], []
    parameters = of_definition(value.node)
    taken = parameters.without_first() if value.bound else parameters
    return list(taken.positional), list(taken.keyword_only)
