"""Shardings in a dict that the text of the call does not spell out: they are taken out of it before the call.

    in_shardings = kwargs.pop("in_shardings", None)

Where the dict is used elsewhere, out of a copy of it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardlint.model.mesh.meshes import leaves
from shardlint.model.reach import lookup
from shardlint.model.signatures import SHARDING_SETTINGS
from shardlint.model.values import Constant, Items, Place, Table, Unknown, options
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.syntax import Binding, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.equinox._shardings_inside.given_shardings import (
    Given,
    One,
    Parted,
    given,
    refuse_explicit,
    under_name,
)
from shardlint_rules.equinox.call_text import Cut, cut
from shardlint_rules.equinox.filled import Entry, filled, is_none, open_to
from shardlint_rules.equinox.wrapped import NotRewritten

if TYPE_CHECKING:
    from shardlint_rules.equinox._shardings_inside.shardings_into_body import Asked

_AT_ONCE = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True)
class TakenOut:
    """The statements that take them out, what they give, and the call without them."""

    lines: list[str]
    inputs: Given
    outputs: Given
    rest: Cut


def taken_out(site: Site) -> TakenOut:
    """How the shardings leave the dict. Raises `NotRewritten`."""
    opened = [keyword for keyword in site.call.keywords if keyword.arg is None]
    held = {keyword: filled(site, keyword.value, SHARDING_SETTINGS) for keyword in opened}
    keyword = next(one for one in opened if held[one])
    text = site.text(keyword.value)
    direct = {name: one for name in SHARDING_SETTINGS if (one := site.keyword(name)) is not None}
    entries = held[keyword]
    if set(direct) & set(entries) or sum(1 for one in opened if held[one]) > 1 or site.form != "call":
        raise NotRewritten(f"`**{text}` may hold more keywords")
    _check_place(site, keyword)
    if not direct and open_to(site, site.file, keyword.value):
        unknown = Entry(Unknown(), False, Place(site.file, keyword))
        entries = {name: entries.get(name, unknown) for name in SHARDING_SETTINGS}
    for name, entry in entries.items():
        _check(site, name, entry)
    own = _own(site, keyword.value)
    found = _names(site, [*entries, "options"])
    variable = text if own else found[-1]
    names = dict(zip(entries, found, strict=False))
    quote = "'" if _single_quotes(site) else '"'
    lines, asked = _beside(site, direct)
    lines += [] if own else [f"{variable} = {_copied(site, keyword.value)}"]
    for name, entry in entries.items():
        sure = entry.surely and not is_none(entry)
        default = "" if entry.surely else ", None"
        lines.append(f"{names[name]} = {variable}.pop({quote}{name}{quote}{default})")
        parted = Parted.at(site) if _holds_none(entry) else None
        whole = One(names[name], False, None, parted=parted)
        asked[name] = whole if sure else One.optional(names[name], False, None, parted=parted)
    return TakenOut(
        lines,
        asked.get("in_shardings"),
        asked.get("out_shardings"),
        cut(site, set(direct.values()), {keyword: f"**{variable}"}),
    )


def _beside(site: Site, direct: dict[str, ast.keyword]) -> tuple[list[str], dict[str, Given]]:
    """Statements for the shardings that are given beside the dict, and what they ask for."""
    asked = {name: given(site, one.value, inputs=name == "in_shardings") for name, one in direct.items()}
    inputs, outputs = (asked.get(name) for name in SHARDING_SETTINGS)
    lines, inputs, outputs = named(site, inputs, outputs)
    return lines, {"in_shardings": inputs, "out_shardings": outputs}


def _holds_none(entry: Entry) -> bool:
    """Whether a tree of shardings has None in it."""
    trees = [option for option in options(entry.value) if isinstance(option, Items | Table)]
    return any(Constant(None) in leaves(tree) for tree in trees)


def with_names(site: Site, asked: Asked) -> tuple[list[str], Asked]:
    """Statements that give the shardings names, and what is asked for in their terms. Raises `NotRewritten`."""
    check_place(site, "what the shardings are may change")
    lines, inputs, outputs = named(site, asked.inputs, asked.outputs)
    return lines, replace(asked, inputs=inputs, outputs=outputs)


def named(site: Site, inputs: Given, outputs: Given) -> tuple[list[str], Given, Given]:
    """Statements that give shardings names, and the shardings in their terms. Raises `NotRewritten`."""
    names = dict(zip(SHARDING_SETTINGS, _names(site, list(SHARDING_SETTINGS)), strict=True))
    lines: list[str] = []
    found: list[Given] = []
    for name, one in zip(SHARDING_SETTINGS, (inputs, outputs), strict=True):
        if one is None or (isinstance(one, One) and one.when and not isinstance(one.source, ast.Call)):
            found.append(one)
            continue
        value, given_there = under_name(site, one, names[name])
        lines.append(f"{names[name]} = {value}")
        found.append(given_there)
    return lines, found[0], found[1]


def _check_place(site: Site, keyword: ast.keyword) -> None:
    check_place(site, f"`**{site.text(keyword.value)}` may hold more keywords")


def runs_anew(site: Site) -> bool:
    """Whether the call is made for each element or turn, so that what it is given cannot be named just before."""
    try:
        check_place(site, "")
    except NotRewritten:
        return True
    return False


def check_place(site: Site, otherwise: str) -> None:
    """The statements are run once, just before the call."""
    statement = site.file.statement(site.call)
    for outer in site.file.ancestors(site.call):
        if outer is statement:
            break
        if isinstance(outer, _AT_ONCE):
            raise NotRewritten(f"{otherwise}, and is not read once before the statement")
    scope = site.file.home(statement)
    for outer in site.file.ancestors(statement):
        if outer is scope.node:
            break
        if isinstance(outer, _LOOPS):
            raise NotRewritten(f"{otherwise}, and is read in a loop")
    if scope.kind == "class":
        raise NotRewritten(f"{otherwise}, and is read in the body of a class")


def _check(site: Site, name: str, entry: Entry) -> None:
    """What is in the dict must be something that filter_shard takes."""
    for option in options(entry.value):
        if isinstance(option, Items) and option.kind != "tuple":
            raise NotRewritten(f"{name} in the dict is a {option.kind}")
        refuse_explicit(site, option)


def _own(site: Site, node: ast.expr) -> bool:
    """Whether it is a variable of this function (or module) that only fills it, and gives it to this call alone."""
    if not isinstance(node, ast.Name):
        return False
    bindings, scope = lookup(site.file, node, node.id)
    if scope is None or scope is not site.file.home(node):
        return False
    if not all(_fresh(binding) for binding in bindings):
        return False
    for mention in site.file.mentions_in(scope, node.id):
        if not isinstance(mention, ast.Name) or isinstance(mention.ctx, ast.Store) or mention is node:
            continue
        outer = site.file.parent(mention)
        if isinstance(outer, ast.Subscript):
            continue
        if isinstance(outer, ast.Attribute) and outer.attr in ("update", "setdefault", "pop", "get"):
            continue
        return False
    return scope.kind != "module" or not any(
        True for _ in site.program.project.importing(site.file.path, node.id)
    )


def _fresh(binding: Binding) -> bool:
    """Whether nothing else holds the dict: it is made here, or is the `**kwargs` of the function."""
    if binding.kind == "assign" and binding.value is not None:
        return _made(binding.value)
    return binding.node is getattr(getattr(binding.scope.node, "args", None), "kwarg", None)


def _made(node: ast.expr) -> bool:
    called = last_name(node.func) if isinstance(node, ast.Call) else ""
    return isinstance(node, ast.Dict | ast.DictComp) or called in ("dict", "asdict", "_asdict", "copy")


def _copied(site: Site, node: ast.expr) -> str:
    text = site.text(node)
    return text if _made(node) else f"dict({text})"


def _bound(site: Site, name: str) -> bool:
    """Whether a name means something in the scope of the statement, or to code in it."""
    scope = site.file.home(site.file.statement(site.call))
    around = {id(one) for one in scope.outward()}
    if site.file.bindings(scope, name):
        return True
    inside = set(map(id, walk(scope.node)))
    for mention in site.file.mentions(name):
        if isinstance(mention, ast.Name) and isinstance(mention.ctx, ast.Load) and id(mention) in inside:
            owner = lookup(site.file, mention, name)[1]
            if owner is None or id(owner) in around:
                return True
    return False


def _names(site: Site, wanted: list[str]) -> list[str]:
    """Names for what the fix binds, which no other fix of the file takes: plain ones at its first `filter_jit`."""
    calls = [site.file.parent(mention) for mention in site.file.mentions("filter_jit")]
    earlier = [one for one in calls if isinstance(one, ast.Call) and one.lineno < site.call.lineno]
    if not earlier and not any(_bound(site, name) for name in wanted):
        return wanted
    base = _base(site, site.call)
    behind = sum(1 for one in earlier if _base(site, one) == base)
    for number in range(1, len(calls) + 50):
        prefix = "_".join(filter(None, (base, str(number) if number > 1 else "")))
        names = [f"{prefix}_{name}" if prefix else name for name in wanted]
        if not any(_bound(site, name) for name in names):
            if not behind:
                return names
            behind -= 1
    raise NotRewritten(f"the name `{wanted[0]}` is taken")


def _base(site: Site, call: ast.Call) -> str:
    """What a call of `filter_jit` wraps, by name."""
    definition = site.file.parent(call)
    if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
        return definition.name.strip("_")
    node: ast.AST | None = call.args[0] if call.args else None
    while isinstance(node, ast.Call):
        node = node.args[0] if node.args else node.func
    return last_name(node).strip("_") if node is not None else ""


def _single_quotes(site: Site) -> bool:
    text = site.file.source.text
    return text.count("'") > text.count('"')


def lines_above(site: Site, line: int, lines: list[str]) -> list[Edit]:
    """Statements above the decorated definition that begins on a line."""
    source = site.file.source
    start = source.line_starts[line - 1]
    indent = source.line(line)[: len(source.line(line)) - len(source.line(line).lstrip())]
    gap = "\n" if indent else "\n\n"
    return [Edit(start, start, "".join(f"{indent}{one}\n" for one in lines) + gap)]
