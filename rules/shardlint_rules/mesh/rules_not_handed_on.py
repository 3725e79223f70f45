"""SL332."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rules_api.rule import Certainty, Finding, Harm, Keywords, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import names_in, walk

_OPTIONS = ("rules", "axis_rules", "logical_axis_rules", "sharding_rules", "mesh")
_USES = 2


class RulesNotHandedOn(Rule):
    """A method calls a helper itself, and leaves out the rules that the class gives it.

    ## What it does
    Where a class has a method that does nothing but call a helper with rules or a mesh that it knows
    (`return logical_to_mesh_axes(names, mesh=self.mesh, rules=self.rules)`), and uses it, reports a call of that helper
    in the same class which leaves them out.

    ## Why it hurts
    The helper falls back on the rules or mesh in context, which may be others or none: the names then stand for no
    axis, or for another one, in this one place.

    ## Evidence
    The proof shows the array of that place whole. Left alone: calls that give the option by position or `**options`,
    and methods that are not used otherwise.
    """

    code = "SL332"
    name = "rules-not-handed-on"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("method",)
    triggers = (Keywords(*_OPTIONS),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call without the options."""
        call = site.call
        method = _forwarding(site, call)
        owner = site.file.parent(method) if method is not None else None
        if method is None or not isinstance(owner, ast.ClassDef) or not isinstance(call.func, ast.Name):
            return
        taken = {one.arg for one in walk(method.args) if isinstance(one, ast.arg) and one.arg != "self"}
        handed = [one.arg for one in call.keywords if one.arg and not names_in(one.value) & taken]
        if not handed:
            return
        calls = [one for one in walk(owner) if isinstance(one, ast.Call) and one is not call]
        used = sum(site.text(one.func) == f"self.{method.name}" for one in calls)
        if used < _USES:
            return
        for other in calls:
            if not isinstance(other.func, ast.Name) or other.func.id != call.func.id or _spreads(other):
                continue
            options = [one.arg for one in call.keywords if one.arg]
            given = options[: max(0, len(other.args) - len(call.args))] + [one.arg for one in other.keywords]
            left = [one for one in handed if one in _OPTIONS and one not in given]
            if left:
                yield site.finding(
                    other,
                    f"`{left[0]}` is left out, which `self.{method.name}` hands on",
                    f"`{call.func.id}` takes the `{left[0]}` in context here, and those of the layer elsewhere.",
                    help=f"call self.{method.name}",
                    certainty=Certainty.POSSIBLE,
                    form="method",
                    why=f"`{owner.name}` calls `self.{method.name}` in {used} places",
                )


def _forwarding(site: Site, call: ast.Call) -> ast.FunctionDef | None:
    """The method that does nothing but make a call."""
    statement = site.file.parent(call)
    method = site.file.parent(statement) if isinstance(statement, ast.Return) else None
    if not isinstance(method, ast.FunctionDef):
        return None
    before = [one for one in method.body if one is not statement]
    plain = all(isinstance(one, ast.Assign) or _is_text(one) for one in before)
    return method if plain and method.args.args[:1] and method.args.args[0].arg == "self" else None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _spreads(call: ast.Call) -> bool:
    return any(one.arg is None for one in call.keywords) or any(
        isinstance(one, ast.Starred) for one in call.args
    )
