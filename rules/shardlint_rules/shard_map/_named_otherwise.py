"""Functions that are named after one collective and return another. Shared by no other rule."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.shard_map._named_mean import kept

# What a function that is named after a collective may not return instead, in place of it.
_INSTEAD = {
    "pmean": ("all_gather", "pmax", "pmin", "ppermute"),
    "psum": ("pmean", "all_gather", "pmax", "pmin", "ppermute"),
    "pmax": ("psum", "pmean", "pmin", "all_gather"),
    "pmin": ("psum", "pmean", "pmax", "all_gather"),
    "all_gather": ("pmean", "pmax", "pmin"),
}
OTHERS = tuple(f"jax.lax.{name}" for name in ("all_gather", "pmax", "pmin", "ppermute", "pmean"))
SAYS = (r"(?i)def \w*(?:p_?mean|p_?sum|p_?max|p_?min|all_?gather)",)
_SPELLED = {
    "pmean": regex(r"(?:^|_)p_?mean(?:_|s?$)", re.I),
    "psum": regex(r"(?:^|_)p_?sum(?:_|s?$)", re.I),
    "pmax": regex(r"(?:^|_)p_?max(?:_|$)", re.I),
    "pmin": regex(r"(?:^|_)p_?min(?:_|$)", re.I),
    "all_gather": regex(r"^(?!.*(?:mean|sum|max|min)).*(?:^|_)all_?gather(?:_|ed$|s?$)", re.I),
}
# Names that say the function is not the collective itself: a step of one, or its gradient.
_PART = regex(
    r"(?:^|_)(?:fwd|bwd|forward|backward|grad|vjp|jvp|transpose|scatter|via|with|and|or|of|test|from|to|ref)(?:_|$)|test"
)
# What makes the one of the other.
_COMPUTES = regex(
    r"mean|avg|averag|sum|max|min|norm|div|mul|prod|scal|median|quantile|std|var$|axis_size|reduce|where|select|"
    r"dot|matmul|einsum|at$|set$|add|neg|concat|stack"
)


class Otherwise(NamedTuple):
    """A function, the collective it is named after, and what its docstring adds."""

    function: str
    named: str
    said: str


def named_otherwise(site: Site) -> Otherwise | None:
    """The function around a collective that is named after another one; None where what is in it may make up for it."""
    call = site.call
    own = site.api.rpartition(".")[2]
    function = next((one for one in site.file.ancestors(call) if isinstance(one, ast.FunctionDef)), None)
    if (
        function is None
        or not call.args
        or isinstance(call.args[0], ast.Constant)
        or _PART.search(function.name)
    ):
        return None
    said = [name for name, spelled in _SPELLED.items() if spelled.search(function.name)]
    if len(said) != 1 or own not in _INSTEAD[said[0]]:
        return None
    for node in walk(function):
        if isinstance(node, ast.BinOp | ast.AugAssign | ast.UnaryOp | ast.For | ast.While):
            return None
        if isinstance(node, ast.Call) and node is not call:
            name = last_name(node.func)
            if _COMPUTES.search(name) or _SPELLED[said[0]].search(name):
                return None
    if not kept(site, call, function):
        return None
    return Otherwise(function.name, said[0], ast.get_docstring(function) or "")
