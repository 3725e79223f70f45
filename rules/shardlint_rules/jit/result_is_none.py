"""SL237."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rules_api.rule import Finding, Harm, Lines, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint_rules.jit.own_calls import CALLING, gives_nothing, own_calls
from shardlint_rules.jit.repeated import is_test

_DEFINITIONS = Lines(
    r"def \w*(?:step|shard|update|plac|init|loss|grad|forward|replicat|batch)\w*\(",
    file_says=r"jax|flax|equinox|haliax",
    saying=("def ",),
    on="definition",
)
# The last line of a function that ends in an expression. It is checked first, to parse fewer bodies.
_BARE = regex(r"(?!(?:return|raise|pass|yield|break|continue|del|global|nonlocal)\b)[A-Za-z_({\[)}\]][^=]*$")
_RESULTS = (ast.Name, ast.Tuple, ast.List, ast.Dict, ast.BinOp, ast.Attribute)


class ResultIsNone(Rule):
    """The result of a helper for meshes or shardings is used, and the helper returns nothing.

    The name is None from then on, and what the helper placed is lost.

    ## Reports
    - proven: `params = shard_params(params, mesh)` if the function of the project has no `return` with a value.
    - proven: a function that steps, places or initializes by its name, returns nothing, and ends in an expression
      without effect: `state, loss` in place of `return state, loss`.

    ## Write instead
    `return params` at the end of the helper. If the helper changes its argument in place, call it as a statement.

    ## Limits
    Methods, decorated functions and functions without a body are not reported.
    """

    code = "SL237"
    name = "result-is-none"
    harm = Harm.CRASH
    triggers = (CALLING, _DEFINITIONS)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a name that becomes None, or for the last expression of a function."""
        statement = site.syntax
        if is_test(site.file, statement) or site.program.project.is_test(site.file.path):
            return
        if isinstance(statement, ast.FunctionDef):
            yield from self._missing_return(site, statement)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            yield from self._none_assigned(site, statement)

    def _none_assigned(self, site: Site, statement: ast.Assign | ast.AnnAssign) -> Iterator[Finding]:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        if isinstance(target, ast.Name) and target.id.startswith("_"):
            return  # the name says that it is not used
        for call, function in own_calls(site):
            node = function.node
            if statement.value is call and isinstance(node, ast.FunctionDef) and gives_nothing(node):
                yield site.finding(
                    call.func,
                    f"`{site.text(target)}` is None: `{node.name}` returns nothing.",
                    why=f"the definition at {site.where(function.place)} has no return with a value",
                    help=f"call it as a statement, or return the arrays from `{node.name}`",
                )

    def _missing_return(self, site: Site, function: ast.FunctionDef) -> Iterator[Finding]:
        lines = site.text(function).rstrip().splitlines()
        last = lines[-1].partition("#")[0].strip()
        if (
            function.name.startswith("__")
            or len(lines) < 2
            or not _BARE.match(last)
            or len(function.body) < 2
        ):
            return
        statement = function.body[-1]
        if (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, _RESULTS)
            and gives_nothing(function)
        ):
            yield site.finding(
                statement.value,
                f"Every call of `{function.name}` returns None: its last expression is not returned.",
                help=f"write: return {site.shown(statement.value)}",
            )
