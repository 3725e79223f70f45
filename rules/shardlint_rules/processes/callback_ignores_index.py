"""SL805."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import Function, Items, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name
from shardlint_rules.jit.how_many import settled_expression
from shardlint_rules.processes.replicated import whole

_MAKE = "jax.make_array_from_callback"


class CallbackIgnoresIndex(Rule):
    """The callback of `make_array_from_callback` gives every shard the same data.

    ## What it does
    Reports `make_array_from_callback(x.shape, sharding, lambda index: x)`: the callback gives x, or a part of it, and
    does not use its parameter, the index of the shard. Shardings that are replicated are left alone, and so is what
    is not made of the array whose shape the whole has: zeros, a constant, the index of the process.

    ## Why it hurts
    It is called for each shard of this process, and must give that shard's part of the whole. With the whole array it
    raises `ValueError` for the shape; with a part, every device gets the same one, so that the examples of the
    others are lost and those of one are counted again and again.

    ## Evidence
    Run on jax 0.12: an array of eight equal shards where eight different ones were meant.
    """

    code = "SL805"
    name = "callback-ignores-index"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    triggers = (Calls(_MAKE),)
    fixes = "none"
    forms = ("call",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a callback."""
        given = site.argument("data_callback")
        if given is None or self._replicated(site):
            return
        found = options(site.value(given))
        if len(found) != 1 or not isinstance(found[0], Function):
            return
        function = found[0]
        file, node = function.place.file, function.node
        args = [*node.args.posonlyargs, *node.args.args][1 if function.bound else 0 :]
        if len(args) != 1 or node.args.vararg is not None or _used(file, node, args[0].arg):
            return
        given_back = _result(file, node)
        if given_back is None or not self._of_it(site, Place(file, given_back)):
            return
        what = " ".join(file.text(given_back).split())
        yield site.finding(
            given,
            "the same for each shard",
            f"`{args[0].arg}` is not used: each shard gets `{what}`, whichever part of the array it is.",
            help=f"give the part that is asked for: {what}[{args[0].arg}]",
            form="unused",
            why="the callback has a parameter that it does not read",
        )

    def _of_it(self, site: Site, result: Place) -> bool:
        """Whether a result is made of the array whose shape the whole has: it, or the same part of it."""
        shape = site.argument("shape")
        if shape is not None:
            shape = settled_expression(site.file, shape)
        if not isinstance(shape, ast.Attribute) or shape.attr != "shape":
            return False
        node = result.node
        assert isinstance(node, ast.expr)
        parts = [node, settled_expression(result.file, node)]
        wanted = ast.dump(shape.value)
        found = (inner for part in parts for inner in _values(part))
        return any(ast.dump(inner) == wanted for inner in found)

    def _replicated(self, site: Site) -> bool:
        """Whether the sharding is known to be `P()`, or the array to be a scalar."""
        shape = site.argument("shape")
        if shape is not None and any(one == Items("tuple", ()) for one in options(site.value(shape))):
            return True
        given = site.argument("sharding")
        return given is not None and all(whole(site, one) for one in options(site.value(given)))


def _values(node: ast.expr) -> Iterator[ast.expr]:
    """What an expression holds the values of: itself, what it is a part of, what it converts."""
    yield node
    if isinstance(node, ast.Subscript):
        yield from _values(node.value)
    elif isinstance(node, ast.Call) and node.args:
        name = last_name(node.func)
        if name in ("asarray", "array"):
            yield from _values(node.args[0])


def _used(file: FileFacts, node: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))


def _result(file: FileFacts, node: ast.AST) -> ast.expr | None:
    """What a callback returns, where that is one expression."""
    if isinstance(node, ast.Lambda):
        return node.body
    if not isinstance(node, ast.FunctionDef):
        return None
    returns = file.walked(file.scope(node)).returns
    return returns[0].value if len(returns) == 1 and isinstance(returns[0], ast.Return) else None
