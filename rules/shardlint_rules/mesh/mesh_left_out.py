"""SL347."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import ClassValue, Function, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.nodes import child_nodes, mentions_name, none_by_default, walk_nodes

_NAME = r"\w*(?:mesh|sharding|specs?|rules|devices)\w*"
_LINE = rf"if\s+(?:not\s+)?{_NAME}(?:\s+is\s+None)?\s*:|({_NAME})\s*=\s*\1\s+or\b"
_NONE = compile_lazily(r"\b(?:None|Optional|Any)\b")
_LOOKING = (
    "print",
    "isinstance",
    "len",
    "bool",
    "id",
    "type",
    "info",
    "debug",
    "warning",
    "getattr",
    "hasattr",
)


class MeshLeftOut(Rule):
    """A function passes its mesh parameter to another function before it sets the parameter's default.

    The callee gets None, and makes another mesh or does not shard. The rest of the function uses the default: weights
    and batches are then sharded over different meshes. Nothing is raised if both meshes have the same devices.

    ## Reports
    - `before-default` (likely): a call such as `specs = build(mesh=mesh)` above
      `if mesh is None: mesh = default_mesh()`. The parameter is a mesh, devices, a sharding, a spec or rules, and
      None by default.

    ## Write instead
    Set the default of the parameter above the call.

    ## Limits
    Not reported: calls of project functions that accept None, and calls that only inspect the value.
    """

    code = "SL347"
    name = "mesh-left-out"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("before-default",)
    triggers = (Lines(_LINE, saying=("mesh", "sharding", "spec", "rules", "devices")),)
    where = "host"
    in_tests = False
    fixes = "none"

    @detector("line", finds="before-default")
    def report_use(self, site: Site) -> Finding | None:
        """The use of an argument before its default."""
        found = _find_use_before_default(site)
        if found is None or not isinstance(site.syntax, ast.stmt):
            return None
        node, name, call = found
        line = site.syntax.lineno
        return site.finding(
            node,
            f"`{last_name(call.func)}` gets None if a caller omits `{name}`: line {line} sets the default too late.",
            label="may still be None",
            help=f"move the default of `{name}` above this call",
            why=f"`{name}` is None by default, and only line {line} replaces None",
        )


def _find_use_before_default(site: Site) -> tuple[ast.expr, str, ast.Call] | None:
    """The argument, parameter and call above the statement that replaces the None of a parameter."""
    statement, scope = site.syntax, site.scope.enclosing_function()
    node = scope.node if scope is not None else None
    if (
        not isinstance(node, ast.FunctionDef)
        or statement not in node.body
        or not isinstance(statement, ast.stmt)
    ):
        return None
    name = _name_replacing_none(statement)
    if name is None or name not in none_by_default(node.args):
        return None
    for above in node.body[: node.body.index(statement)]:
        if any(
            isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store)
            for one in walk_nodes(above)
        ):
            return None
        for call in _find_calls(above, name):
            given = [(None, one) for one in call.args] + [(one.arg, one.value) for one in call.keywords]
            for at, (keyword, value) in enumerate(given):
                if (
                    isinstance(value, ast.Name)
                    and value.id == name
                    and not _takes_none(site, call, keyword, at)
                ):
                    return value, name, call
    return None


def _name_replacing_none(statement: ast.stmt) -> str | None:
    """The name whose None a statement replaces."""
    match statement:
        case ast.If(
            test=ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)])
        ):
            pass
        case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name))):
            pass
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.BoolOp(op=ast.Or(), values=[ast.Name(id=first), *_])
        ):
            return name if first == name else None
        case _:
            return None
    targets = [target for one in statement.body if isinstance(one, ast.Assign) for target in one.targets]
    return name if any(isinstance(one, ast.Name) and one.id == name for one in targets) else None


def _find_calls(node: ast.AST, name: str) -> Iterator[ast.Call]:
    """The calls in a statement that are made whatever the name holds, and are no question about it."""
    if isinstance(node, ast.If | ast.IfExp) and mentions_name(node.test, name):
        return
    if isinstance(
        node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.Assert | ast.Raise
    ):
        return
    if isinstance(node, ast.BoolOp) and any(mentions_name(one, name) for one in node.values[:-1]):
        return
    if isinstance(node, ast.Call) and last_name(node.func) not in _LOOKING:
        yield node
    for child in child_nodes(node):
        yield from _find_calls(child, name)


def _takes_none(site: Site, call: ast.Call, keyword: str | None, at: int) -> bool:
    """Return whether the called function is of the project and itself has the default None there."""
    for option in options(site.value(call.func)):
        if isinstance(option, ClassValue):
            if keyword is None or not _is_needed(option.node, keyword):
                return True
            continue
        if not isinstance(option, Function) or not isinstance(option.node, ast.FunctionDef):
            continue
        taken = [one.arg for one in (*option.node.args.posonlyargs, *option.node.args.args)]
        shifted = at + bool(option.bound)
        name = keyword or (taken[shifted] if shifted < len(taken) else None)
        if name is None or name in none_by_default(option.node.args):
            return True
        return any(_tests_for_none(one, name) for one in walk_nodes(option.node))
    return False


def _is_needed(cls: ast.ClassDef, name: str) -> bool:
    """Return whether a class has a required field, which is not annotated to take None."""
    fields = [one for one in cls.body if isinstance(one, ast.AnnAssign) and one.value is None]
    mine = [one for one in fields if isinstance(one.target, ast.Name) and one.target.id == name]
    return any(not _NONE.search(ast.unparse(one.annotation)) for one in mine)


def _tests_for_none(node: ast.AST, name: str) -> bool:
    """Return whether an expression tests a name for None, or for its truth."""
    match node:
        case ast.Compare(left=ast.Name(id=asked), comparators=[ast.Constant(value=None)]):
            return asked == name
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=asked)):
            return asked == name
        case ast.If(test=ast.Name(id=asked)) | ast.IfExp(test=ast.Name(id=asked)):
            return asked == name
        case ast.BoolOp(values=values):
            return any(isinstance(one, ast.Name) and one.id == name for one in values)
    return False
