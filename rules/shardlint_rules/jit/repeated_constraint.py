"""SL224."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.mesh.shardings import PLACING
from shardlint.model.reach import lookup
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import Binding
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.placed import PLACED_WORDS

_NNX = "flax.nnx.with_sharding_constraint"
# Parts of a name: `w13_weight_scale` has three, `kvCache` two.
_PARTS = regex(r"[A-Za-z][a-z]*|[0-9]+")
# In a function with more calls no name is looked for that may have been meant: each finding would look at all.
_MANY = 400


class RepeatedConstraint(Rule):
    """The same array is constrained twice in the same way, and its sibling not at all.

    ## What it does
    Reports a constraint or placement `x = constrain(x, s)` that repeats one made before, with the same sharding and
    nothing done to `x` in between, where a name like it (`x_scale` beside `x`) is placed nowhere. Mostly the line was
    copied and one of its names not changed.

    ## Why it hurts
    The repeated constraint does nothing. The array that was meant keeps the sharding it has, often whole on every
    device, and nothing is raised.

    ## Evidence
    The proof shows the sibling unsharded. In public code the same line twice is common where the value changes between
    the two: those are left alone, as are repetitions in different branches.
    """

    code = "SL224"
    name = "repeated-constraint"
    harm = Harm.SILENT
    triggers = (Calls(*PLACING, _NNX, file_says=PLACED_WORDS),)
    forms = ("call",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for the second of two placements."""
        name = _placed_name(site, site.call)
        if name is None:
            return
        before = self._before(site, name)
        if before is None:
            return
        sibling = self._sibling(site, name.id)
        yield site.finding(
            site.call,
            f"`{name.id}` was given this sharding at line {before.line}",
            f"Nothing was done to `{name.id}` in between, so this has no effect"
            + (f", and `{sibling}` is given none." if sibling else "."),
            help=f"is `{sibling}` meant?" if sibling else "leave it out, or name the array that is meant",
        )

    def _before(self, site: Site, name: ast.Name) -> Binding | None:
        """The placement of the same kind whose result the site's own places again."""
        bindings, _ = lookup(site.file, name, name.id)
        if len(bindings) != 1 or bindings[0].kind != "assign":
            return None
        first = bindings[0].value
        if not isinstance(first, ast.Call) or first is site.call or _placed_name(site, first) is None:
            return None
        written = [
            [site.text(part) for part in (call.func, *call.args, *call.keywords)]
            for call in (first, site.call)
        ]
        return bindings[0] if written[0] == written[1] and self._unchanged(site, first) else None

    def _unchanged(self, site: Site, first: ast.Call) -> bool:
        """Whether the names that the sharding is read from are bound once on the way."""
        for part in walk(site.call):
            if isinstance(part, ast.Name) and part is not site.call.args[0]:
                now, _ = lookup(site.file, part, part.id)
                twin = next(
                    (one for one in walk(first) if isinstance(one, ast.Name) and one.id == part.id), part
                )
                then, _ = lookup(site.file, twin, part.id)
                if [one.node for one in now] != [one.node for one in then]:
                    return False
        return True

    def _sibling(self, site: Site, name: str) -> str | None:
        """A name of the function that is like this one, and is placed nowhere."""
        scope = site.scope.function()
        if scope is None:
            return None
        calls = site.file.walked(scope).calls
        if len(calls) > _MANY:
            return None
        placed = {
            found.id
            for call in calls
            if (found := _placed_name(site, call)) is not None
        }
        bound = [one for one, found in site.file.bound(scope).bindings.items() if _is_local(found)]
        left = sorted(one for one in bound if one not in placed and _alike(one, name))
        return left[0] if left else None


def _placed_name(site: Site, call: ast.Call) -> ast.Name | None:
    """The name that a call places and binds again: `x = constrain(x, s)`."""
    statement = site.file.parent(call)
    first = call.args[0] if len(call.args) > 1 or (call.args and call.keywords) else None
    if (
        not isinstance(statement, ast.Assign)
        or len(statement.targets) != 1
        or not isinstance(first, ast.Name)
    ):
        return None
    target = statement.targets[0]
    return first if isinstance(target, ast.Name) and target.id == first.id else None


def _is_local(bindings: list[Binding]) -> bool:
    return all(one.kind in ("assign", "unpack", "param", "augment") for one in bindings)


def _alike(one: str, other: str) -> bool:
    """Whether two names share their first part or all but one of their parts."""
    first, second = _PARTS.findall(one), _PARTS.findall(other)
    if one == other or not first or not second:
        return False
    shorter, longer = sorted((first, second), key=len)
    return longer[: len(shorter)] == shorter or (
        len(first) == len(second) > 1 and sum(a != b for a, b in zip(first, second, strict=True)) == 1
    )
