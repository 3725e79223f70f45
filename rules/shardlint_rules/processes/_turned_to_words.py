"""Arrays of tokens whose rows are turned into text, one after the other."""

from __future__ import annotations

import ast

from shardlint.model.reach import lookup
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name

_ARRAYS = ("Array", "ndarray", "ArrayLike")
# Of jaxtyping and of libraries that follow it: `Int["batch length"]`, `Int[Array, "batch length"]`.
_SHAPED = ("Int", "Integer", "UInt", "Float", "Bool", "Num", "Shaped", "Real")


def array_decoded(site: Site) -> ast.Name | None:
    """The parameter annotated as an array of jax whose rows a loop gives to `decode`, as a tokenizer has it."""
    call = site.call
    if not isinstance(call.func, ast.Attribute) or len(call.args) != 1 or not isinstance(call.args[0], ast.Name):
        return None
    bindings, _ = lookup(site.file, call.args[0], call.args[0].id)
    over = [one.value for one in bindings if one.kind in ("for", "comprehension")]
    if len(bindings) != 1 or len(over) != 1 or not isinstance(over[0], ast.Name):
        return None
    given, _ = lookup(site.file, over[0], over[0].id)
    arrays = len(given) == 1 and given[0].kind == "param" and _is_array(site.file, given[0].annotation)
    return over[0] if arrays else None


def _is_array(file: FileFacts, annotation: ast.expr | None) -> bool:
    match annotation:
        case ast.Subscript(value=value, slice=ast.Constant(value=str()) | ast.Tuple()):
            return last_name(value) in _SHAPED
        case ast.Name() | ast.Attribute():
            return last_name(annotation) in _ARRAYS and not file.text(annotation).startswith(("np.", "numpy."))
    return False
