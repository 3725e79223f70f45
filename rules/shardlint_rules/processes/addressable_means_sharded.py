"""SL816."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Attributes, Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, last_name

_ASKED = "is_fully_addressable"
_SHARDED = compile_lazily(r"(?i)shard|partitioned|distributed|multi_?dev|spread|is_split|several_devices")
_WHOLE = compile_lazily(r"(?i)replicated|un_?sharded|single_?device|one_device|unpartitioned|not_sharded")
_ELSEWHERE = compile_lazily(r"(?i)host|process|global|remote|address|local|fetch|cross|gather|sharding_|_sharding$")


@dataclass(frozen=True)
class _Meaning:
    """The whole expression that asks, and whether it is true where parts are on other processes."""

    node: ast.expr
    elsewhere: bool


class AddressableMeansSharded(Rule):
    """The code reads `is_fully_addressable` to find out whether an array is sharded.

    With one process every array is fully addressable, even an array that is sharded over eight devices. The program
    then treats that array as unsharded: the array is placed again, gathered, or saved and restored as one array.

    ## Reports
    - `as-condition` (likely): `x.is_fully_addressable` as a condition for the sharding
      (`x.sharding if not x.is_fully_addressable else None`) or for saving as one array
      (`SaveArgs(aggregate=x.is_fully_addressable)`). Also as the result of a project function.
    - `by-name` (possible): `not x.is_fully_addressable` under a name such as `is_sharded`, or `x.is_fully_addressable`
      under a name such as `is_replicated`.

    ## Write instead
    Write `is_fully_replicated`, or compare shardings: `x.sharding.is_equivalent_to(wanted, x.ndim)`.
    """

    code = "SL816"
    name = "addressable-means-sharded"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("as-condition",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "as-condition": "The program also runs as one process with several devices."
    }
    triggers = (Attributes(_ASKED, file_says=(_ASKED,)), Calls("builtins.getattr", file_says=(_ASKED,)))
    in_tests = False
    fixes = "none"

    @detector("attribute", "call", finds="as-condition")
    def report_condition(self, site: Site) -> Finding | None:
        """An answer that decides whether a sharding is kept."""
        asked = _find_asked(site)
        if asked is None:
            return None
        meaning = _find_meaning(site.file, asked)
        use = _describe_kept_sharding(site.file, meaning) or _effect_in_callers(site, meaning)
        return _make_finding(site, asked, use) if use else None

    @detector("attribute", "call", finds="by-name")
    def report_name(self, site: Site) -> Finding | None:
        """An answer whose name says something else."""
        asked = _find_asked(site)
        if asked is None:
            return None
        meaning = _find_meaning(site.file, asked)
        name = _assigned_name(site.file, meaning.node)
        wanted = _SHARDED if meaning.elsewhere else _WHOLE
        if not wanted.search(name) or _ELSEWHERE.search(name):
            return None
        return _make_finding(site, asked, f"is named `{name}`")


def _make_finding(site: Site, expression: ast.expr, use: str) -> Finding:
    return site.finding(
        expression,
        f"With one process `{site.shown(expression)}` is True for every array, sharded or not.",
        help="write `is_fully_replicated`, or `x.sharding.is_equivalent_to(wanted, x.ndim)`",
        why=f"`is_fully_addressable` says whether other processes hold a shard; the answer {use}",
    )


def _effect_in_callers(site: Site, meaning: _Meaning) -> str:
    """The effect of the answer that a function returns in its callers."""
    function = site.file.evaluation_scope(meaning.node).enclosing_function()
    if not isinstance(site.file.parent(meaning.node), ast.Return) or function is None:
        return ""
    for place in site.program.flow.ends(site.file, function.node).direct_calls(20):
        if isinstance(place.node, ast.expr):
            inside = _find_meaning(place.file, place.node)
            elsewhere = inside.elsewhere is not meaning.elsewhere
            found = _describe_kept_sharding(place.file, _Meaning(inside.node, elsewhere))
            if found:
                return found
    return ""


def _find_asked(site: Site) -> ast.expr | None:
    """`x.is_fully_addressable`, or `getattr(x, "is_fully_addressable", ...)`."""
    node = site.syntax
    if isinstance(node, ast.Call):
        words = [one.value for one in node.args[1:2] if isinstance(one, ast.Constant)]
        return node if words == [_ASKED] else None
    if not isinstance(node, ast.Attribute):
        return None
    of = last_name(node.value)
    return node if not of.endswith("sharding") else None  # a sharding is asked of what is to be done with it


def _find_meaning(file: FileFacts, node: ast.expr) -> _Meaning:
    """The expression that an answer is a part of, through `not`, `and` and `or`."""
    elsewhere = False
    while True:
        parent = file.parent(node)
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            elsewhere = not elsewhere
        elif not isinstance(parent, ast.BoolOp):
            return _Meaning(node, elsewhere)
        node = parent


def _assigned_name(file: FileFacts, node: ast.expr) -> str:
    """The name that an answer gets."""
    parent = file.parent(node)
    match parent:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
            return last_name(target)
        case ast.keyword(arg=str() as name):
            return name
        case ast.Return():
            function = file.evaluation_scope(parent).enclosing_function()
            return function.name if function is not None else ""
        case ast.Lambda():
            return _assigned_name(file, parent)
    return ""


def _describe_kept_sharding(file: FileFacts, meaning: _Meaning) -> str:
    """Return the effect of an answer that decides whether a sharding is kept."""
    parent = file.parent(meaning.node)
    yes: ast.AST | None = None
    no: ast.AST | None = None
    match parent:
        case ast.keyword(arg="aggregate") if not meaning.elsewhere:
            return "decides what is saved as one array"
        case ast.IfExp(test=test, body=yes, orelse=no) if test is meaning.node:
            pass
        case ast.If(test=test, body=[ast.Return(value=yes)]) if test is meaning.node:
            no = _find_early_return(file, parent)
    if not meaning.elsewhere:
        yes, no = no, yes
    nothing = isinstance(no, ast.Constant) and no.value is None
    if nothing and isinstance(yes, ast.Attribute) and yes.attr == "sharding":
        return "decides whether the sharding is kept"
    return ""


def _find_early_return(file: FileFacts, statement: ast.If) -> ast.AST | None:
    """Return the statement that returns if a condition is false."""
    after = list(statement.orelse)
    block = getattr(file.parent(statement), "body", [])
    if not after and statement in block:
        after = block[block.index(statement) + 1 :]
    return after[0].value if after and isinstance(after[0], ast.Return) else None
