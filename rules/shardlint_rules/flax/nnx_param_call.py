"""SL514."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.values import Api, CallResult, Constant, Value, options
from shardlint.rules_api.rule import Calls, Edit, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.flax.annotations import VARIABLES, WITH_METADATA, WITH_PARTITIONING

_WITH = (WITH_METADATA, WITH_PARTITIONING)
# Variables whose value is an array by contract: it is differentiated, or averaged.
_OF_ARRAYS = ("flax.nnx.Param", "flax.nnx.BatchStat")
# Operators that neither strings nor functions have.
_OF_NUMBERS = (ast.MatMult, ast.Sub, ast.Div, ast.Pow)
_INITIALIZERS = ("jax.nn.initializers.", "flax.nnx.initializers.", "flax.linen.initializers.")
# Initializers as they stand: a call of one is an array. A call of any other in there is an initializer.
_PLAIN = ("zeros", "ones")


class NnxParamCall(Rule):
    """An `nnx.Param` gets a name, a shape or an initializer instead of an array.

    A second positional argument raises `TypeError`: an NNX variable takes only the array. A string or a function
    becomes the value, and the first computation with it raises. `shape=` of `nnx.with_metadata` does not reach the
    initializer: it is stored as metadata. `jax.random.normal` then gets only a key and draws a scalar. The scalar
    broadcasts, so the layer trains one number.

    ## Reports
    - proven: `nnx.Param`, `Variable`, `BatchStat`, `Cache` or `Intermediate` with a second positional argument.
    - proven: `nnx.Param` or `nnx.BatchStat` with a string or an initializer as value. For other variables only if a
      method of the class computes with the value.
    - proven: `nnx.with_metadata(..., shape=...)` or `nnx.with_partitioning(..., shape=...)`, if its result is called
      with only a key.

    ## Fix
    Calls the initializer with a key of `rngs` and the shape. Unsafe: later keys of `rngs` change. No fix if the
    function has no `rngs` or the shape is not known.
    """

    code = "SL514"
    name = "nnx-param-call"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    triggers = (Calls(*VARIABLES), Calls(*_WITH, file_says=("shape",)))
    fixes = "unsafe"

    @detector("call", of=VARIABLES)
    def report_second_argument(self, site: Site) -> Finding | None:
        """A second positional argument of a variable."""
        if site.arguments.open_positional or len(site.arguments.positional) < 2:
            return None
        kind = f"nnx.{site.short_name}"
        return site.finding(
            site.call.args[1],
            f"On {site.release('flax')} a second positional argument of `{kind}` raises TypeError: "
            "it takes only the array.",
            help=f"write `{kind}(x)`, where x is an array such as `initializer(key, shape)`, "
            "and pass metadata by keyword",
            fix=self._write_fix(site, site.call.args[1]),
        )

    @detector("call", of=VARIABLES)
    def report_value(self, site: Site) -> Finding | None:
        """A string or an initializer as the value of a variable."""
        argument = site.argument("value") or (site.call.args[0] if site.call.args else None)
        if site.arguments.open_positional or argument is None:
            return None
        if site.api not in _OF_ARRAYS and not _is_computed_with(site):
            return None
        kind, values = f"nnx.{site.short_name}", options(site.value(argument))
        if all(isinstance(value, Constant) and isinstance(value.value, str) for value in values):
            return site.finding(
                argument,
                f"`{kind}` stores this string as its value; the first computation with it raises.",
                why="a variable takes no name: its name is the attribute that it is assigned to",
                help=f"write `{kind}(initializer(key, shape))`",
            )
        if all(_is_initializer(value) for value in values):
            return site.finding(
                argument,
                f"`{kind}` stores the initializer as its value; the first computation with it raises.",
                label="not called",
                help=f"write `{kind}({site.shown(argument)}(key, shape))`",
                fix=self._write_fix(site, argument),
            )
        return None

    @detector("call", of=_WITH)
    def report_shape(self, site: Site) -> Finding | None:
        """A shape as metadata: `with_metadata(initializer, shape=...)(key)`."""
        keyword = site.keyword("shape")
        call = site.file.parent(site.call)
        if keyword is None or not isinstance(call, ast.Call) or call.func is not site.call:
            return None
        if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
            return None
        given = site.argument("initializer") or (site.call.args[0] if site.call.args else None)
        value = site.value(given) if given is not None else None
        name = site.short_name
        why = f"nnx.{name} stores shape= as metadata"
        edits = self._move_shape_argument(site, keyword, call)
        help = "pass the shape after the key: `(key, shape)`"
        fix = (
            site.fix(Safety.UNSAFE, "pass the shape with the key", edits, "the variable gets its shape")
            if edits
            else None
        )
        if isinstance(value, Api) and value.name.startswith("jax.random."):
            text = f"`{value.name}` gets no shape and draws a scalar, which broadcasts."
            return site.finding(keyword, text, why=why, help=help, fix=fix, harm=Harm.SILENT)
        if value is not None and _is_initializer(value):
            text = f"The initializer of `nnx.{name}` gets no shape and raises TypeError."
            return site.finding(keyword, text, why=why, help=help, fix=fix)
        return None

    def _move_shape_argument(self, site: Site, keyword: ast.keyword, call: ast.Call) -> list[Edit]:
        """Edits that take `shape=` away and give it behind the key; none where a comment stands in the way."""
        around = site.file.source_text(site.call)
        if "#" in around:
            return []
        others = [*site.call.args, *(one for one in site.call.keywords if one is not keyword)]
        parts = [site.text(site.call.func), ", ".join(site.text(one) for one in others)]
        _, end = site.file.character_span(call.args[0])
        return [
            site.replace(site.call, f"{parts[0]}({parts[1]})"),
            Edit(end, end, f", {site.text(keyword.value)}"),
        ]

    def _write_fix(self, site: Site, initializer: ast.expr) -> Fix | None:
        """Call the initializer with a key of the function's `rngs` and the shape it was given as metadata."""
        scope = site.scope.enclosing_function()
        if scope is None or not isinstance(initializer, ast.Call) or "#" in site.text(site.call):
            return None
        value = site.value(initializer)
        if not (isinstance(value, CallResult) and value.api in _WITH) or not site.file.bindings(
            scope, "rngs"
        ):
            return None
        shape = next((one for one in initializer.keywords if one.arg == "shape"), None)
        if shape is None or len(site.call.args) > 2:
            return None
        others = [*initializer.args, *(one for one in initializer.keywords if one is not shape)]
        made = f"{site.text(initializer.func)}({', '.join(site.text(one) for one in others)})"
        array = f"{made}(rngs.params(), {site.text(shape.value)})"
        rest = [site.text(one) for one in site.call.keywords]
        text = f"{site.text(site.call.func)}({', '.join([array, *rest])})"
        return site.fix(
            Safety.UNSAFE, f"write {text}", [site.replace(site.call, text)], "it draws one more key from rngs"
        )


def _is_computed_with(site: Site) -> bool:
    """Return whether a method of the class uses the attribute that the variable is assigned to as a number."""
    assigned, owner = site.file.parent(site.call), site.scope
    target = assigned.targets[0] if isinstance(assigned, ast.Assign) else getattr(assigned, "target", None)
    while owner.kind != "class" and owner.parent is not None:
        owner = owner.parent
    if owner.kind != "class" or not isinstance(target, ast.Attribute):
        return False
    for read in walk_nodes(owner.node):
        if isinstance(read, ast.Attribute) and read.attr == target.attr and isinstance(read.ctx, ast.Load):
            node: ast.AST = read
            while isinstance(outer := site.file.parent(node), ast.Subscript) or (
                isinstance(outer, ast.Attribute) and outer.attr == "value"
            ):
                node = outer
            if isinstance(outer, ast.BinOp) and isinstance(outer.op, _OF_NUMBERS):
                return True
    return False


def _is_initializer(value: Value) -> bool:
    """Return whether a value is surely a function that makes an array of a key and a shape."""
    match value:
        case CallResult(by=Api()) if value.api in _WITH:
            return True
        case CallResult(by=Api()):
            return value.api.startswith(_INITIALIZERS) and value.api.rpartition(".")[2] not in _PLAIN
        case Api(name=name):
            return name.startswith((*_INITIALIZERS, "jax.random."))
    return False
