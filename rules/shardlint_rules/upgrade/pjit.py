"""A use of pjit as one of jax.jit."""

from __future__ import annotations

import ast

from shardlint.facts.shardings import SHARDINGS, literal_leaves
from shardlint.model.evaluator.annotations import annotated_classes
from shardlint.model.values import Api, Assumed, CallResult, Constant, Parameter, Place, Value, options
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts

# Taken by position by pjit; jax.jit takes only the function so.
_POSITIONS = (
    "in_shardings",
    "out_shardings",
    "static_argnums",
    "static_argnames",
    "donate_argnums",
    "donate_argnames",
)
_NONE = Constant(None)
_OLD_NAMES = {"in_axis_resources": "in_shardings", "out_axis_resources": "out_shardings"}


def _pjit_call(site: Site, node: ast.expr) -> tuple[ast.Call, int] | None:
    """The call that gives pjit its arguments, and how many of them stand before its keywords' parameters."""
    parent = site.file.parent(node)
    if not isinstance(parent, ast.Call):
        return None
    if parent.func is node:
        return parent, 1
    if parent.args and parent.args[0] is node:
        callee = options(site.value(parent.func))
        if all(isinstance(one, Api) and one.name == "functools.partial" for one in callee):
            return parent, 2
    return None


def is_pjit_decorator(site: Site, node: ast.expr) -> bool:
    """`@pjit`, with no arguments."""
    parent = site.file.parent(node)
    return isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and node in parent.decorator_list


def edits_for_jit(site: Site, node: ast.expr, under_a_mesh: bool) -> list[Edit] | str:
    """Edits that write jax.jit for pjit; or why they are not made.

    Under a mesh that is entered, `None` for an output means replicated to pjit; to jax.jit, and to pjit elsewhere, it
    means: as the compiler likes.
    """
    if len(options(site.value(node))) != 1:
        return "the name may be of another function on some paths"
    name, imports = site.spell("jax.jit")
    edits = [site.replace(node, name), *imports]
    if is_pjit_decorator(site, node):
        return edits
    found = _pjit_call(site, node)
    if found is None:
        return "it is passed on as a value, and some of its calls are not known"
    call, before = found
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return "a star argument hides its arguments"
    given = call.args[before:]
    outputs: list[ast.expr] = []
    if len(given) > len(_POSITIONS):
        return "it has more positional arguments than pjit takes"
    for parameter, argument in zip(_POSITIONS, given, strict=False):
        start = _opening_parenthesis(site.file, argument)
        if start is None:
            return "an argument has parentheses of its own"
        edits.append(Edit(start, start, f"{parameter}="))
        if parameter == "out_shardings" and under_a_mesh:
            outputs.append(argument)
    for keyword in call.keywords:
        if keyword.arg in _OLD_NAMES:
            start = site.file.character_span(keyword)[0]
            edits.append(Edit(start, start + len(keyword.arg), _OLD_NAMES[keyword.arg]))
        if keyword.arg in ("out_shardings", "out_axis_resources") and under_a_mesh:
            outputs.append(keyword.value)
    for node in outputs:
        replicated = _write_replicated_none(site, node)
        if isinstance(replicated, str):
            return replicated
        edits += replicated
    return edits


def _write_replicated_none(site: Site, node: ast.expr) -> list[Edit] | str:
    """`None` as the `P()` that it means; or why that can't be written."""
    edits: list[Edit] = []
    todo: list[ast.expr] = [node]
    while todo:
        part = todo.pop()
        match part:
            case ast.Constant(value=None):
                name, imports = site.spell("jax.sharding.PartitionSpec")
                edits += [site.replace(part, f"{name}()"), *imports]
            case ast.Tuple(elts=inner) | ast.List(elts=inner) | ast.Dict(values=inner):
                todo += inner
            case ast.IfExp(body=body, orelse=orelse):
                todo += [body, orelse]
            case ast.Name() | ast.Attribute() if _may_be_none(site, part):
                name, imports = site.spell("jax.sharding.PartitionSpec")
                text = site.text(part)
                edits += [site.replace(part, f"{name}() if {text} is None else {text}"), *imports]
            case ast.Name() | ast.Attribute() | ast.Call() if _holds_none(site, part):
                edits += _replace_none_in_tree(site, part)
            case _ if _may_be_none(site, part) or _holds_none(site, part):
                text = site.shown(part)
                return f"`{text}` may hold None, which pjit replicates and jax.jit leaves open"
    return edits


def _replace_none_in_tree(site: Site, node: ast.expr) -> list[Edit]:
    """A tree with `P()` for each None in it."""
    spec, imports = site.spell("jax.sharding.PartitionSpec")
    tree_map, more = site.spell("jax.tree.map" if site.allows("jax", ">=0.4.25") else "jax.tree_util.tree_map")
    whole = f"lambda spec: {spec}() if spec is None else spec"
    text = f"{tree_map}({whole}, {site.text(node)}, is_leaf=lambda spec: spec is None)"
    return [site.replace(node, text), *imports, *more]


def _may_be_none(site: Site, node: ast.expr) -> bool:
    """Return whether a caller gives None, or an annotation or default allows it where the callers are not known."""
    value = site.program.followed(site.value(node))
    return any(_allows_none(site, one) for one in options(value))


def _allows_none(site: Site, value: Value) -> bool:
    if isinstance(value, Assumed):
        return value.value == _NONE
    if not isinstance(value, Parameter) or not isinstance(value.place.node, ast.arg):
        return value == _NONE
    file, declared = value.place.file, value.place.node
    defaults = [one.value for one in file.bindings(file.evaluation_scope(declared), value.name) if one.node is declared]
    if any(isinstance(one, ast.Constant) and one.value is None for one in defaults):
        return True
    annotation = declared.annotation
    return annotation is not None and _NONE in annotated_classes(site.program.evaluator, Place(file, annotation))


def _holds_none(site: Site, node: ast.expr) -> bool:
    """Return whether a leaf of a tree of shardings is None."""
    value = site.program.evaluator.trees.expand_tree_map(site.program.followed(site.value(node)))
    return any(leaf == _NONE for leaf in literal_leaves(value))


def _opening_parenthesis(file: FileFacts, argument: ast.expr) -> int | None:
    start = file.character_span(argument)[0]
    return start if file.source.text[:start].rstrip().endswith((",", "(")) else None


def pjit_shardings(site: Site, node: ast.expr) -> list[ast.expr]:
    """The shardings given to a use of pjit."""
    found = _pjit_call(site, node)
    if found is None:
        return []
    call, before = found
    named = [one.value for one in call.keywords if one.arg in (*_POSITIONS[:2], *_OLD_NAMES)]
    return [*call.args[before : before + 2], *named]


def needs_no_context(site: Site, node: ast.expr) -> bool:
    """Return whether all shardings that are given name their mesh."""
    found = _pjit_call(site, node)
    if found is None:
        return is_pjit_decorator(site, node)
    call, _ = found
    if any(one.arg is None for one in call.keywords) or any(
        isinstance(one, ast.Starred) for one in call.args
    ):
        return False
    every = [
        leaf
        for given in pjit_shardings(site, node)
        for way in options(site.value(given))
        for leaf in literal_leaves(way)
    ]
    return all(leaf == Constant(None) or (isinstance(leaf, CallResult) and leaf.api in SHARDINGS) for leaf in every)
