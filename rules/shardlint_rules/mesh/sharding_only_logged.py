"""SL333."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import Scope
from shardlint.syntax.nodes import walk

_SHARDING = regex(r"(?:^|_)(?:shardings?|p?specs?|partition_specs?)$")
_PLACING = regex(
    r"(?:^|_|\.)(?:device_put|with_sharding_constraint|shard|shard_put|put|constrain|filter_shard)$"
)
_LOGGING = regex(r"(?:^|\.)(?:debug|info|warning|error|log|print|write|exception)$")


class ShardingOnlyLogged(Rule):
    """A sharding is worked out and then only printed, while the array is placed by another one.

    ## What it does
    Reports a local sharding or spec (`model_sharding = ...`, `weight, sharding = ...`) that is read by nothing but log
    messages, in a function that goes on to place an array by the `.sharding` of something else.

    ## Why it hurts
    The one that was worked out was mostly meant. The other may be none at all: a variable of a model that is not
    placed yet lies on one device, or has a plain tuple of names where a sharding is asked for.

    ## Evidence
    The proof shows the array on one device. Left alone: names that begin with an underscore, that are bound more than
    once, and functions that read no `.sharding`.
    """

    code = "SL333"
    name = "sharding-only-logged"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("logged",)
    triggers = (
        Lines(
            r"[\w, ()]*(?:sharding|spec)s?\b[\w, ()]*=[^=]",
            file_says=r"\.sharding\b",
            saying=("sharding", "spec"),
        ),
    )
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a sharding that nothing is placed by."""
        scope = site.scope.function()
        if scope is None or not isinstance(site.syntax, ast.Assign) or len(site.syntax.targets) != 1:
            return
        for name in _bound(site.syntax.targets[0]):
            if len(site.file.bindings(scope, name)) != 1:
                continue
            reads = [
                one
                for one in site.file.mentions_in(scope, name)
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)
            ]
            other = self._other(site, scope) if reads and all(_logged(site, one) for one in reads) else None
            if other is not None:
                yield site.finding(
                    other,
                    f"`{name}` was worked out at line {site.syntax.lineno}, and is only logged",
                    f"The array is placed by `{site.text(other)}`, and by `{name}` nothing is.",
                    help=f"place it by {name}",
                    certainty=Certainty.POSSIBLE,
                    form="logged",
                    why=f"nothing but a log message reads `{name}`",
                )

    def _other(self, site: Site, scope: Scope) -> ast.AST | None:
        """The first `.sharding` that the function reads below the statement, if it places an array below."""
        line = site.syntax.lineno if isinstance(site.syntax, ast.stmt) else 0
        calls = (call for call in site.file.walked(scope).calls if call.lineno > line)
        if not any(_PLACING.search(site.text(call.func)) for call in calls):
            return None
        reads = (
            one
            for one in walk(scope.node)
            if isinstance(one, ast.Attribute) and one.attr == "sharding" and one.lineno > line
        )
        return min(reads, key=lambda one: (one.lineno, one.col_offset), default=None)


def _bound(target: ast.expr) -> Iterator[str]:
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    for part in parts:
        if isinstance(part, ast.Name) and _SHARDING.search(part.id) and not part.id.startswith("_"):
            yield part.id


def _logged(site: Site, node: ast.AST) -> bool:
    """Whether a use of a name is part of a log message."""
    for outer in site.file.ancestors(node):
        if isinstance(outer, ast.Call) and _LOGGING.search(site.text(outer.func)):
            return True
        if isinstance(outer, ast.stmt):
            return False
    return False
