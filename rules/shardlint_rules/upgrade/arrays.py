"""Whether an expression is a jax array, and what says so. Shared by rules about attributes of arrays."""

from __future__ import annotations

import ast

from shardlint.model.values import Api, CallResult, Parameter, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass

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


@dataclass(frozen=True)
class Shown:
    """That something is an array: for certain, or by what `why` says; `form` is its short name."""

    form: str = ""
    why: str = ""


def shown_as_array(site: Site, node: ast.expr) -> Shown | None:
    """What shows that an expression is a jax array; None where nothing does."""
    if _made(site, node) or _asserted(site, node):
        return Shown()
    annotation = _annotated(site, node)
    if annotation is not None:
        return Shown("annotated", f"the parameter is annotated as {annotation}")
    return None


def _made(site: Site, node: ast.expr) -> bool:
    found = options(site.value(node))
    return all(
        isinstance(one, CallResult) and isinstance(one.by, Api) and _makes(one.by.name) for one in found
    )


def _makes(name: str) -> bool:
    last = name.rpartition(".")[2]
    plain = last.islower() and last not in _OTHERWISE
    return name in _MAKING or (name.startswith(_MAKERS) and plain)


def _asserted(site: Site, node: ast.expr) -> bool:
    """`assert isinstance(x, jax.Array)` before it, or `if isinstance(x, jax.Array):` around it."""
    function = site.file.home(node).function()
    if not isinstance(node, ast.Name) or function is None:
        return False
    tests = [
        statement.test
        for statement in function.body
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


def _annotated(site: Site, node: ast.expr) -> str | None:
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
