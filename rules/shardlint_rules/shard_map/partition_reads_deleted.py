"""SL428."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rules_api.rule import Finding, Harm, Rule, Takes
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk


class PartitionReadsDeleted(Rule):
    """The partition rule of a primitive deletes what the function that it returns still reads.

    ## What it does
    Reports `del x` in a function that takes `arg_infos`, `arg_shapes`, `result_infos` or `result_shape`, as
    `custom_partitioning` and the partition rules of primitives do, where a function that is defined after it reads
    `x`, and nothing binds it again.

    ## Why it hurts
    The partition rule runs only where arguments are sharded: on one device everything passes, and on several the
    compiler raises JaxRuntimeError, with a NameError in it.

    ## Evidence
    Run on jax 0.12: "custom_partitioner: Traceback ..." with a sharded argument. Recorded in TransformerEngine.
    """

    code = "SL428"
    name = "partition-reads-deleted"
    harm = Harm.CRASH
    triggers = (Takes("arg_infos", "arg_shapes"),)
    fixes = "none"
    forms = ("parameter",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a name that is deleted and read."""
        function = site.scope.function()
        node = function.node if function is not None else None
        if not isinstance(node, ast.FunctionDef):
            return
        for at, statement in enumerate(node.body):
            for target in statement.targets if isinstance(statement, ast.Delete) else ():
                for name in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                    after = node.body[at + 1 :]
                    if not isinstance(name, ast.Name) or any(_binds(one, name.id) for one in after):
                        continue
                    read = next((found for one in after for found in _reads(one, name.id, False)), None)
                    if read is not None:
                        yield site.finding(
                            name,
                            f"`{name.id}` is read on line {read.lineno}",
                            f"`{name.id}` is deleted here, and the function that partitions reads it: with sharded "
                            "arguments this raises NameError while it is compiled.",
                            help=f"leave `{name.id}` out of the del",
                        )


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether a statement binds a name again in the same function."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return statement.name == name
    return any(
        isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store)
        for one in walk(statement)
    )


def _reads(node: ast.AST, name: str, inside: bool) -> Iterator[ast.Name]:
    """Where a function inside reads a name that is not its own."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        args = node.args
        own = [
            one.arg
            for one in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
            if one
        ]
        stored = (one for one in walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
        if name in own or any(one.id == name for one in stored):
            return
        inside = True
    if inside and isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _reads(child, name, inside)
