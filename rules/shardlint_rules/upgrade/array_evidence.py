"""Test for expressions that are jax arrays, with the evidence. Shared by rules about attributes of arrays."""

from __future__ import annotations

import ast

from shardlint.model.values import Api, CallResult, Parameter, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts

ARRAY_TYPES = ("jax.Array", "jax.numpy.ndarray", "jaxtyping.Array", "chex.Array", "flax.typing.Array")
_MAKERS = ("jax.numpy.", "jax.random.", "jax.lax.", "jax.nn.")
_MAKING = (
    "jax.device_put",
    "jax.make_array_from_callback",
    "jax.make_array_from_single_device_arrays",
    "jax.make_array_from_process_local_data",
    "jax.block_until_ready",
)
# jax.numpy's functions that return no array.
_OTHERWISE = (
    "shape",
    "ndim",
    "size",
    "dtype",
    "issubdtype",
    "iinfo",
    "finfo",
    "result_type",
    "promote_types",
    "split",
)
_SHARDS = ("addressable_shards", "global_shards")


@dataclass(frozen=True)
class ArrayEvidence:
    """That something is an array: for certain, or by what `why` says; `form` is its short name."""

    form: str = ""
    why: str = ""


def shown_as_array(site: Site, node: ast.expr) -> ArrayEvidence | None:
    """Return the evidence that an expression is a jax array; None if there is none."""
    if _makes_jax_array(site, node) or _part_of_array(site.file, node) or _is_asserted_array(site, node):
        return ArrayEvidence()
    annotation = _array_annotation(site, node)
    if annotation is not None:
        return ArrayEvidence("annotated", f"the parameter is annotated as {annotation}")
    return None


def _makes_jax_array(site: Site, node: ast.expr) -> bool:
    found = options(site.value(node))
    return all(
        isinstance(one, CallResult) and isinstance(one.by, Api) and _is_array_maker(one.by.name)
        for one in found
    )


def _is_array_maker(name: str) -> bool:
    last = name.rpartition(".")[2]
    plain = last.islower() and last not in _OTHERWISE
    return name in _MAKING or (name.startswith(_MAKERS) and plain)


def _part_of_array(file: FileFacts, node: ast.expr, depth: int = 3) -> bool:
    """`shard.data` and `x.addressable_data(0)`, and what goes through a list of them."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "addressable_data"
    if isinstance(node, ast.Attribute):
        return node.attr == "data" and _is_shard(file, node.value)
    if isinstance(node, ast.Subscript):
        return _is_list_of_arrays(file, node.value, depth)
    if isinstance(node, ast.Name):
        over = _iterated_expression(file, node)
        return over is not None and _is_list_of_arrays(file, over, depth)
    return False


def _is_list_of_arrays(file: FileFacts, node: ast.expr, depth: int) -> bool:
    """Return whether an expression is a list of the arrays on single devices."""
    if depth == 0:
        return False
    if isinstance(node, ast.Attribute) and node.attr == "device_buffers":
        return True
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return _part_of_array(file, node.elt, depth - 1)
    if isinstance(node, ast.Name):
        value = _single_assigned_value(file, node)
        return value is not None and _is_list_of_arrays(file, value, depth - 1)
    return False


def _is_shard(file: FileFacts, node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr in _SHARDS
    over = _iterated_expression(file, node) if isinstance(node, ast.Name) else None
    return isinstance(over, ast.Attribute) and over.attr in _SHARDS


def _iterated_expression(file: FileFacts, name: ast.Name) -> ast.expr | None:
    """Return the iterable of the loop or comprehension of which a name is the variable."""
    inner: ast.AST = name
    for outer in file.ancestors(name):
        if isinstance(outer, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp):
            for generator in outer.generators:
                if (
                    isinstance(generator.target, ast.Name)
                    and generator.target.id == name.id
                    and inner is not generator
                ):
                    return generator.iter
        elif isinstance(outer, ast.For) and isinstance(outer.target, ast.Name) and outer.target.id == name.id:
            return outer.iter
        elif isinstance(outer, ast.Lambda | ast.FunctionDef):
            return None
        inner = outer
    return None


def _single_assigned_value(file: FileFacts, name: ast.Name) -> ast.expr | None:
    """The one expression a local name is bound to."""
    for scope in file.evaluation_scope(name).enclosing_scopes():
        bindings = file.bindings(scope, name.id)
        if bindings:
            return bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
    return None


def _is_asserted_array(site: Site, node: ast.expr) -> bool:
    """`assert isinstance(x, jax.Array)` before it, or `if isinstance(x, jax.Array):` around it."""
    function = site.file.evaluation_scope(node).enclosing_function()
    if not isinstance(node, ast.Name) or function is None:
        return False
    tests = [
        statement.test
        for statement in function.body_statements
        if isinstance(statement, ast.Assert) and statement.lineno < node.lineno
    ]
    inner: ast.AST = node
    for outer in site.file.ancestors(node):
        if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
            body = outer.body if isinstance(outer.body, list) else [outer.body]
            tests += [outer.test] if inner in body else []
        inner = outer
    return any(_is_array_test(site, test, node.id) for test in tests)


def _is_array_test(site: Site, test: ast.expr, name: str) -> bool:
    if not (isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "isinstance"):
        return False
    subject, kind = test.args if len(test.args) == 2 else (None, None)
    return (
        isinstance(subject, ast.Name)
        and subject.id == name
        and kind is not None
        and _is_array_type(site, kind)
    )


def _is_array_type(site: Site, node: ast.expr) -> bool:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value in ("jax.Array", "jnp.ndarray")
    return all(isinstance(one, Api) and one.name in ARRAY_TYPES for one in options(site.value(node)))


def _array_annotation(site: Site, node: ast.expr) -> str | None:
    value = site.value(node)
    annotation = getattr(value.place.node, "annotation", None) if isinstance(value, Parameter) else None
    if (
        isinstance(value, Parameter)
        and annotation is not None
        and value.place.file is site.file
        and _is_array_type(site, annotation)
    ):
        return site.text(annotation)
    return None
