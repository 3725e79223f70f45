"""SL209."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.shardings import PLACING
from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax.enclosing import around, stands_in
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.placed import asks_for_a_place

# What a placement that cannot be done raises, and what holds it. A TypeError says that it was given no array.
_ERRORS = (
    "Exception",
    "BaseException",
    "ValueError",
    "RuntimeError",
    "AssertionError",
    "KeyError",
)
_AROUND = (ast.Try, ast.With, ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class SwallowedShardingError(Rule):
    """The error of a placement is caught, and the array goes on without it.

    ## What it does
    Reports `device_put`, `with_sharding_constraint`, `reshard` and `filter_shard` in a `try` whose handler does
    nothing, or hands back the array as it was, without a word.

    ## Why it hurts
    A placement raises when a dimension does not divide, an axis is not in the mesh, or no mesh is in context: all of
    them mistakes in the program. Caught, the array stays whole on one device, or on every device, and the program
    runs slower or out of memory with nothing to say why. It stays so after the mistake has spread.

    ## Evidence
    Run on jax 0.4.38 to 0.12, with the errors of an indivisible dimension, a missing axis and a missing mesh. Left
    alone: handlers that log, warn, raise, place the array otherwise or tell the caller; handlers of import, attribute
    and type errors only (what is not an array cannot be placed); `device_put(x)`, which asks for no place; a `try`
    around more than the placement; tests (possible).
    """

    code = "SL209"
    name = "swallowed-sharding-error"
    by_hand = "whether the program may go on without the placement is for the author to decide"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    triggers = (Calls(*PLACING),)
    forms = ("call",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a placement whose failure nobody hears of."""
        if site.result_use[0] == "dropped":
            return
        swallowed = _swallowed(site)
        if swallowed is None or not asks_for_a_place(site):
            return
        start, end = swallowed
        value = site.shown(site.call.args[0]) if site.call.args else "the array"
        yield site.finding(
            site.call,
            f"swallows the error of `{site.text(site.call.func)}` at line {site.call.lineno}",
            f"Where that fails, {value} stays as it is, on one device or on all of them, and nothing says so.",
            help="let it raise, or ask before whether the shape and the mesh fit, and warn",
            certainty=Certainty.POSSIBLE if _in_tests(site) else Certainty.PROVEN,
            span=(start, end),
        )


def _swallowed(site: Site) -> tuple[int, int] | None:
    """Where what swallows the error stands: the head of a handler, or `suppress(...)`."""
    told = {site.text(part) for part in site.call.args[:1]}
    for outer in around(site.file, site.syntax, *_AROUND):
        if isinstance(outer, ast.Try) and stands_in(site.syntax, outer.body):
            handler = _catching(outer)
            if handler is None or not _only_places(site, outer.body) or not _hides(site, handler, told):
                return None
            start = site.file.span(handler)[0]
            return start, site.file.span(handler.type)[1] if handler.type is not None else start + len(
                "except"
            )
        if isinstance(outer, ast.With):
            for item in outer.items:
                if _suppresses(site, item) and _only_places(site, outer.body):
                    return site.file.span(item.context_expr)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return None
        if isinstance(outer, ast.Lambda):
            call = site.file.parent(outer)
            if not isinstance(call, ast.Call) or not _of_placing(site, call):
                return None
            told |= {
                site.text(part) for part in call.args
            }  # jax.tree.map(lambda p: device_put(p, s), params)
    return None


def _catching(node: ast.Try) -> ast.ExceptHandler | None:
    """The handler an error of a placement comes to; with a handler of narrower errors beside it that is not told."""
    handlers = [handler for handler in node.handlers if _names(handler) & {*_ERRORS, ""}]
    return handlers[0] if len(handlers) == 1 else None


def _names(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {""}
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "?") for one in types}


def _only_places(site: Site, body: list[ast.stmt]) -> bool:
    """Whether the guarded block does nothing but place, and this is the first call in it that does.

    What else it did could be what is expected to fail.
    """
    if len(body) > 3 or not all(
        isinstance(part, ast.Assign | ast.Return | ast.Expr | ast.AugAssign) for part in body
    ):
        return False
    calls = [part for statement in body for part in walk(statement) if isinstance(part, ast.Call)]
    placing = [call for call in calls if getattr(site.value(call.func), "name", "") in PLACING]
    first = min(placing, key=lambda call: (call.lineno, call.col_offset), default=None)
    return first is site.call and all(_of_placing(site, call) for call in calls)


def _of_placing(site: Site, call: ast.Call) -> bool:
    found = options(site.value(call.func))
    names = [option.name for option in found if isinstance(option, Api)]
    if len(names) == len(found):
        return all(
            name in PLACING or name.startswith(("jax.sharding.", "jax.tree.", "builtins.")) for name in names
        )
    text = site.text(call.func).lower()
    return any(word in text for word in ("shard", "spec", "mesh", "partition"))


def _hides(site: Site, handler: ast.ExceptHandler, told: set[str]) -> bool:
    """Whether the handler goes on as if nothing had been asked: with what the placement was given."""
    for part in handler.body:
        match part:
            case ast.Pass() | ast.Continue() | ast.Expr(value=ast.Constant()):
                continue
            case ast.Return(value=ast.expr() as value) | ast.Assign(value=value):
                if site.text(value) not in told:
                    return False
            case _:
                return False
    return True


def _suppresses(site: Site, item: ast.withitem) -> bool:
    node = item.context_expr
    if not isinstance(node, ast.Call) or getattr(site.value(node.func), "name", "") != "contextlib.suppress":
        return False
    return any(getattr(part, "id", getattr(part, "attr", "")) in _ERRORS for part in node.args)


def _in_tests(site: Site) -> bool:
    path = site.file.path
    folders = path.parts[-4:-1]
    return (
        path.name.startswith("test_")
        or path.stem.endswith("_test")
        or "tests" in folders
        or "test" in folders
    )
