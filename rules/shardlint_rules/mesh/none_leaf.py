"""SL320."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.config.certainty import Certainty
from shardlint.facts.shardings import is_sharding, is_spec
from shardlint.model.evaluator.trees import MAPS
from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Lines, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, Scope, last_name
from shardlint.syntax.nodes import walk_nodes

# How people name a PartitionSpec, a sharding, and what gives one.
_SPEC = compile_lazily(
    r"(^|_)(p?specs?|ps|partitions?|partitioning|partition_?specs?|shardings?|pspecs|axis_resources)($|_)",
    re.IGNORECASE,
)
_NEAR = r"partitionspec|sharding|\bps?\b|_specs?\b|\bp?specs\b"
# `named_tree_map`, `tree.map_with_path`; not these, which map over arrays or devices.
_MAPPING = compile_lazily(r"(^|_)(tree_?)?(multi)?map(_with_path|_with_names?|_structure|ped)?$", re.IGNORECASE)
_NO_TREE = ("builtins.map", "jax.shard_map", "jax.lax.map", "jax.experimental.maps.xmap")
# The boxes of Flax and Praxis that hold an array with the names of its axes.
_BOX = compile_lazily(r"^(Logically)?Partitioned$|^AxisMetadata$|^Boxed")
_TEST_AND_RETURN = 2
_KEEPS_NONE = compile_lazily(
    r"is_leaf\s*=\s*(lambda|\w+_none|is_none)[^\n]*([Nn]one)\b|none_is_leaf\s*=\s*True|type\(None\)|NoneType"
)


class NoneLeaf(Rule):
    """A function that maps the leaves of a tree to specs returns `None` for some leaves.

    Using the specs together with the arrays raises: `None` is an empty subtree, not a leaf. `jax.tree.map(f, specs,
    arrays)` raises ValueError (`pytree structure error`). `jax.tree.map(f, arrays, specs)` passes `None` to `f`, and
    `NamedSharding(mesh, None)` raises TypeError. `jit` and `device_put` accept `None`, and choose a sharding.

    ## Reports
    - `scalar` (likely): a function that is mapped over a tree, and returns `None` for scalars and a spec for other
      leaves. The function tests the rank, shape or size of the leaf. It is mapped by `tree_map`, `tree.map` or EasyLM's
      `named_tree_map`.
    - `unboxed` (likely): a mapped function that returns `None` for an array without flax metadata:
      `x.get_partition_spec() if isinstance(x, nn.Partitioned) else None`.

    ## Write instead
    Write `PartitionSpec()` for replicated.

    ## Limits
    Not reported: files that treat `None` as a leaf (`is_leaf=lambda x: x is None`), functions annotated to return
    `None`, and functions that return `None` for leaves that are not arrays.
    """

    code = "SL320"
    name = "none-among-specs"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("scalar", "unboxed")
    assumptions: ClassVar[Mapping[str, str]] = dict.fromkeys(
        likely, "The tree of specs is used together with the tree of arrays, or for NamedSharding."
    )
    triggers = (
        Lines(
            r"return[ (]+None\b", "return$", r"return\b[^\n]*\bNone\b", file_names=_NEAR, saying=("return",)
        ),
        Calls(*MAPS, file_says=(r"(?s)lambda(?:(?!lambda)[^\n])*None",)),
    )
    fixes = "none"

    @detector("line")
    def report_return(self, site: Site) -> Finding | None:
        """A `return None` of a function that is mapped over a tree and else returns specs."""
        statement = site.syntax
        function = site.scope.enclosing_function()
        if not isinstance(statement, ast.Return) or function is None or function.kind != "function":
            return None
        node = _find_none(statement.value) or (statement if statement.value is None else None)
        if node is None or _is_annotated_none(function.node):
            return None
        form = _find_form(site.file, node, function)
        if form is None:
            return None
        others = [one.value for one in site.file.walk_scope(function).returns if isinstance(one, ast.Return)]
        gives = [
            value
            for other in others
            if other is not None
            for value in _list_parts(other)
            if _is_none(value) is False
        ]
        if not any(_is_spec(site, value) for value in gives):
            return None
        if not _is_mapped(site, function):
            return None
        return self._make_finding(site, node, f"`{function.name}`", form)

    @detector("call")
    def report_lambda(self, site: Site) -> Finding | None:
        """A `None` in a lambda that is mapped over a tree and else returns specs."""
        first = site.arguments.positional[0].node if site.arguments.positional else None
        if not isinstance(first, ast.Lambda):
            return None
        parts = list(_list_parts(first.body))
        none = next((part for part in parts if _is_none(part)), None)
        if none is None:
            return None
        form = _find_form(site.file, none, None)
        gives = [part for part in parts if not _is_none(part)]
        if not form or not any(_is_spec(site, part) for part in gives):
            return None
        return self._make_finding(site, none, "this lambda", form)

    def _make_finding(self, site: Site, node: ast.AST, where: str, form: str) -> Finding | None:
        if _KEEPS_NONE.search(site.file.source.text):
            return None
        return site.finding(
            node,
            f"Mapping over the arrays and the specs from {where} raises: None is neither a leaf nor a spec.",
            label="None, not a leaf",
            help="write `PartitionSpec()` for replicated",
            form=form,
            why=f"on {site.release('jax')} None is an empty subtree, and NamedSharding raises for None",
        )


def _find_form(file: FileFacts, node: ast.AST, function: Scope | None) -> str | None:
    """The form of a finding: None for a scalar, or for an array in no box; None if it is for something else."""
    inner: ast.AST = node
    for outer in file.ancestors(node):
        if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
            asked = list(walk_nodes(outer.test))
            held = outer.body if isinstance(outer.body, list) else [outer.body]
            if _asks_for_box(outer.test) and inner not in held:
                return "unboxed"
            if any(_is_none(part) for part in asked) or any(_tests_leaf_kind(part) for part in asked):
                return None
            return "scalar" if any(_is_about_shape(part) for part in asked) else None
        if isinstance(outer, ast.For | ast.While | ast.ExceptHandler | ast.Lambda):
            return None
        if function is not None and outer is function.node:
            break
        inner = outer
    body = function.body_statements if function is not None else []
    if len(body) != _TEST_AND_RETURN or inner is not body[-1]:
        return None
    return "unboxed" if any(isinstance(one, ast.If) and _asks_for_box(one.test) for one in body) else None


def _tests_leaf_kind(node: ast.AST) -> bool:
    """A question about what kind of thing a leaf is: what is not an array has no spec."""
    name = last_name(node.func) if isinstance(node, ast.Call) else ""
    return name in ("isinstance", "hasattr", "getattr", "callable", "issubclass", "type") or name.startswith(
        "is_"
    )


def _asks_for_box(test: ast.expr) -> bool:
    """`isinstance(x, nn.Partitioned)`: what is in no box may be an array all the same."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, asked]):
            return bool(_BOX.search(last_name(asked)))
    return False


def _is_about_shape(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute | ast.Name) and bool(
        {"ndim", "shape", "size", "rank", "is_scalar", "isscalar", "numel", "shapes"} & {last_name(node)}
    )


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _list_parts(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions of all branches of a conditional expression."""
    if isinstance(node, ast.IfExp):
        yield from _list_parts(node.body)
        yield from _list_parts(node.orelse)
    else:
        yield node


def _find_none(node: ast.expr | None) -> ast.expr | None:
    return next((part for part in _list_parts(node) if _is_none(part)), None) if node is not None else None


def _is_annotated_none(node: ast.AST) -> bool:
    """Return whether a function is annotated to return None, so that its callers are expected to know."""
    returns = getattr(node, "returns", None)
    return returns is not None and any(
        (isinstance(part, ast.Constant) and (part.value is None or "None" in str(part.value)))
        or (isinstance(part, ast.Name) and part.id == "Optional")
        or (isinstance(part, ast.Attribute) and part.attr == "Optional")
        for part in walk_nodes(returns)
    )


def _is_spec(site: Site, node: ast.expr) -> bool:
    """Return whether an expression is a spec or sharding, or is called so."""
    value = site.value(node)
    if is_spec(value) or is_sharding(value):
        return True
    last = node.func if isinstance(node, ast.Call) else node
    name = last_name(last)
    return bool(_SPEC.search(name))


def _is_mapped(site: Site, function: Scope) -> bool:
    """Return whether the file passes a function to one that maps it over a tree."""
    return any(
        isinstance(use, ast.Name | ast.Attribute)
        and isinstance(use.ctx, ast.Load)
        and _find_mapping(site, use) is not None
        for use in site.file.find_mentions(function.name)
    )


def _find_mapping(site: Site, use: ast.expr) -> ast.Call | None:
    """The call that maps what a name stands for over a tree."""
    inner: ast.AST = use
    for outer in site.file.ancestors(use):
        match outer:
            case ast.Call(func=called) if called is inner:  # f(path, leaf), inside a lambda
                pass
            case ast.Lambda(body=body) if body is inner:
                pass
            case ast.Call(args=[first, *_]) if first is inner:
                if _maps_tree(site, outer.func):
                    return outer
                if last_name(outer.func) != "partial":
                    return None
            case _:
                return None
        inner = outer
    return None


def _maps_tree(site: Site, called: ast.expr) -> bool:
    if not _MAPPING.search(last_name(called)):
        return False
    return not any(isinstance(one, Api) and one.name in _NO_TREE for one in options(site.value(called)))
