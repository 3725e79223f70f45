"""SL237."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rules_api.rule import Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.jit._return_forgotten import ENDING, forgotten
from shardlint_rules.jit.own_calls import CALLING, gives_nothing, own_calls
from shardlint_rules.jit.repeated import is_test


class ResultIsNone(Rule):
    """The result of a helper for meshes or shardings is used, and the helper returns nothing.

    ## What it does
    Reports `params = shard_params(params, mesh)` and `return shard_params(...)` where the function of the project
    changes something in place, or forgot its `return`. And functions that step, place or initialize, by name, which
    return nothing and end in an expression that has no effect: `state, loss` in place of `return state, loss`.

    ## Why it hurts
    The name is None from here on. What was placed is thrown away, or what was changed in place is hidden behind None.

    ## Evidence
    Read off the definition: it has no `return` with a value and no `yield`. Left alone: functions without a body,
    methods, decorated functions, and names that are bound more than once.
    """

    code = "SL237"
    name = "result-is-none"
    harm = Harm.CRASH
    triggers = (CALLING, ENDING)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a name that becomes None, or for the end of a function that was to return it."""
        statement = site.syntax
        if isinstance(statement, ast.FunctionDef):
            yield from self._ending(site, statement)
            return
        if is_test(site.file, statement) or not isinstance(statement, ast.Assign | ast.AnnAssign):
            return
        for call, function in own_calls(site):
            node = function.node
            if (
                statement.value is not call
                or not isinstance(node, ast.FunctionDef)
                or not gives_nothing(node)
            ):
                continue
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if isinstance(target, ast.Name) and target.id.startswith("_"):
                continue  # it says that nobody wants it
            file = function.place.file
            where = (
                f"line {function.place.line}"
                if file is site.file
                else f"{file.path.name}:{function.place.line}"
            )
            yield site.finding(
                call.func,
                f"`{site.text(target)}` is None from here on: `{node.name}` at {where} has no return with a value.",
                label="it returns nothing",
                help=f"call it as a statement, or let it return what it makes: {site.text(call.func)}(...)",
            )

    def _ending(self, site: Site, function: ast.FunctionDef) -> Iterator[Finding]:
        if is_test(site.file, function) or site.program.project.is_test(site.file.path):
            return
        given = forgotten(site)
        if given is not None:
            text = site.shown(given)
            yield site.finding(
                given,
                f"As a statement it does nothing, and every call of `{function.name}` gives None.",
                label="this is not returned",
                help=f"write: return {text}",
            )
