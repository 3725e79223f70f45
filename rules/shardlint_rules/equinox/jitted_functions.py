"""Functions passed to `jax.jit` or `filter_jit`, in every spelling, for SL105, SL106, SL108 and SL110."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import Place, Value
from shardlint.rules_api.rule import Fix, Safety
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax.guards import expected_to_fail
from shardlint_rules.equinox.wrapped_functions import Definition


@dataclass(frozen=True)
class Jitted:
    """One jit. `fun` is what it compiles; `name` is the jit as written, `keywords` what it was told besides.

    `function` is the argument, or the definition that is decorated. `made` is the expression that is the compiled
    function, where there is one.
    """

    fun: Value
    function: ast.AST
    name: ast.expr
    keywords: tuple[str, ...]
    hidden: bool
    made: ast.expr | None = None

    @property
    def has_no_settings(self) -> bool:
        """True if it is told nothing but the function."""
        return not self.keywords and not self.hidden


def jitted_function(site: Site) -> Jitted | None:
    """Return the function that the site's jit compiles; None if it is not visible.

    For the forms call, partial and name: a bare decorator is no call. A use that is no decorator is none here.
    """
    if site.form == "name":
        if not isinstance(site.syntax, ast.expr) or site.decorated is None:
            return None
        return Jitted(_value_below_decorator(site, site.decorated), site.decorated, site.syntax, (), False)
    call = site.call
    name = site.callee_expression
    keywords = tuple(key for key in site.arguments.keywords if key != "fun")
    hidden = site.arguments.open_keywords or site.arguments.open_positional
    fun = site.argument("fun")
    if site.form == "call" and fun is not None:
        return Jitted(site.value(fun), fun, name, keywords, hidden, call)
    if site.decorated is not None and not hidden:
        return Jitted(_value_below_decorator(site, site.decorated), site.decorated, name, keywords, hidden)
    parent = site.file.parent(call)
    if isinstance(parent, ast.Call) and parent.func is call and len(parent.args) == 1 and not parent.keywords:
        return Jitted(site.value(parent.args[0]), parent.args[0], name, keywords, hidden, parent)
    return None


def _value_below_decorator(site: Site, definition: Definition) -> Value:
    """A definition through the decorators under the site's."""
    evaluator = site.program.evaluator
    place = next(index for index, one in enumerate(definition.decorator_list) if one is site.syntax)
    value: Value = evaluator.definition_value(site.file, definition)
    for decorator in reversed(definition.decorator_list[place + 1 :]):
        value = evaluator.apply_decorator(Place(site.file, decorator), value)
    return value


def calls_of_compiled(site: Site, jitted: Jitted) -> Iterator[Place]:
    """The calls of the compiled function itself that the text shows."""
    if isinstance(jitted.function, Definition):
        ends = site.program.flow.ends(site.file, jitted.function)
    elif jitted.made is not None:
        ends = site.program.flow.calls(Place(site.file, jitted.made))
    else:
        return
    for end in ends.found:
        outer = end.wrappers[-1].place.node if end.wrappers else None
        direct = outer is (site.syntax if isinstance(jitted.function, Definition) else None)
        if end.kind == "called" and direct and isinstance(end.place.node, ast.Call):
            yield end.place


def is_failure_expected(site: Site, jitted: Jitted) -> bool:
    """Return whether a test expects the jit, or a call of the jitted function, to raise."""
    return any(expected_to_fail(one.file, one.node) for one in calls_of_compiled(site, jitted))


def replace_by_filter_jit(site: Site, jitted: Jitted) -> Fix | None:
    """`eqx.filter_jit` in the place of a `jax.jit` that is told nothing else."""
    if not jitted.has_no_settings:
        return None
    spelled, imports = site.spell("equinox.filter_jit")
    drops = (jitted.name.id,) if isinstance(jitted.name, ast.Name) else ()
    return site.fix(Safety.SAFE, f"use {spelled}", [site.replace(jitted.name, spelled), *imports], drops=drops)
