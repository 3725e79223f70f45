"""SL420."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.lifetime.donation import PMAP
from shardlint.model.reach import assigned_once
from shardlint.model.signatures import Jitted, numbers, wrappings
from shardlint.model.values import Function, Items, Value
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.sharded import SeenCall, calls, count_of, named, several, value_of
from shardlint_rules.jit.structure import differ, is_tree, kind_of, returned_by

_SETTINGS = ("in_axes", "out_axes")


class PmapAxesArity(Rule):
    """`in_axes` or `out_axes` of `pmap` has another structure than the arguments or results of the function.

    ## What it does
    Reports a tuple for `in_axes` with more entries than the function has parameters, or with another number of them
    than a call gives arguments by position; one with fewer than the function must be given, where no call is in sight
    (likely); a list for `in_axes`; and a tuple or list for `out_axes` whose length or
    kind is not that of what every `return` of the function gives. Possible: a tuple where the function returns an
    attribute that it also sets to a dict.

    ## Why it hurts
    The call raises ValueError: "pytree structure error: different lengths of tuple". It is often left behind when an
    argument or a result is added or taken away.

    ## Use instead
    A single number goes for all arguments, or all results.

    ## Evidence
    Run on jax 0.4.38 to 0.12. Arguments given by keyword have no entry: they are split along their first dimension. A
    default that is not given has none either. Entries for static arguments may be there or not.
    """

    code = "SL420"
    name = "pmap-axes-arity"
    harm = Harm.CRASH
    likely = ("too-few",)
    triggers = (Calls(PMAP, file_says=_SETTINGS),)
    in_version_checks = False

    def check(self, site: Site) -> Iterator[Finding]:
        """Findings at the keywords, or at calls that they do not fit."""
        functions = list(wrappings(site.program, site.file, site.call, site.form, (PMAP,)))
        if functions:
            yield from self._inputs(site, functions)
            yield from self._outputs(site, functions)

    def _inputs(self, site: Site, functions: list[Jitted]) -> Iterator[Finding]:
        keyword, value = site.keyword("in_axes"), value_of(site, functions[0], "in_axes")
        static = numbers(
            functions[0].setting("static_broadcasted_argnums"), functions[0].settings, site.program.evaluator
        )
        if keyword is None or not isinstance(value, Items) or value.open or static is None:
            return
        if value.kind == "list":
            yield site.finding(
                keyword,
                f"On {site.release('jax')} every call raises ValueError: in_axes is matched with the tuple of "
                f"arguments.",
                label="a list, where pmap takes a tuple",
                help=f"write a tuple of {len(value.items)}",
            )
            return
        given = len(value.items)
        if all(_too_many(function, given) for function in functions):
            most = len(functions[0].parameters.positional) if functions[0].parameters is not None else 0
            yield site.finding(
                keyword,
                f"On {site.release('jax')} every call raises ValueError: a tuple has one entry for each argument "
                "given by position.",
                label=f"{several(given, 'entry')}, and {named(functions[0])} takes {several(most, 'argument')}",
                help="give one entry for each argument, or one number for all",
            )
            return
        called = list(calls(site, (PMAP,), _SETTINGS))
        for seen in called:
            if not _fits(seen, given, static):
                yield self._unfit(site, seen, given)
        if not called and all(_too_few(function, given, static) for function in functions):
            yield self._short(site, keyword, functions[0], given)

    def _short(self, site: Site, keyword: ast.keyword, function: Jitted, given: int) -> Finding:
        """Fewer entries than arguments that must be given, and no call in sight."""
        assert function.parameters is not None
        least = function.parameters.required
        return site.finding(
            keyword,
            f"On {site.release('jax')} a call with all of them by position raises ValueError: a tuple has one entry "
            "for each.",
            label=f"{several(given, 'entry')}, and {named(function)} must be given {several(least, 'argument')}",
            help="give one entry for each argument, None for what all devices share",
            certainty=Certainty.POSSIBLE,
            form="too-few",
            why="no call in sight gives the others by keyword, which would split them along their first dimension",
        )

    def _unfit(self, site: Site, seen: SeenCall, given: int) -> Finding:
        here = seen.file is site.file
        keyword = site.keyword("in_axes")
        assert keyword is not None
        arguments = several(seen.count or 0, "argument")
        return site.finding(
            seen.call if here else keyword,
            f"On {site.release('jax')} this call raises ValueError.",
            label=(
                f"{arguments}, and in_axes at line {keyword.value.lineno} has {several(given, 'entry')}"
                if here
                else f"{several(given, 'entry')}, and {arguments} given by position at "
                f"{seen.file.path.name}:{seen.call.lineno}"
            ),
            help="a tuple has one entry for each argument given by position, defaults only when they are given",
        )

    def _outputs(self, site: Site, functions: list[Jitted]) -> Iterator[Finding]:
        keyword = site.keyword("out_axes")
        given = count_of(site, functions[0], "out_axes")
        value = value_of(site, functions[0], "out_axes")
        if keyword is None or given is None or not is_tree(value):
            return
        returned = [returned_by(site, function.inner) for function in functions]
        if not all(found and all(differ(value, one) for one in found) for found in returned):
            if isinstance(value, Items):
                yield from self._of_dict(site, functions, keyword)
            return
        yield site.finding(
            keyword,
            f"On {site.release('jax')} every call raises ValueError: out_axes has the structure of the results.",
            label=f"{kind_of(value)}, and {named(functions[0])} returns {kind_of(returned[0][0])}",
            help="give one entry for each result, or one number for all",
        )

    def _of_dict(self, site: Site, functions: list[Jitted], keyword: ast.keyword) -> Iterator[Finding]:
        """Several entries for what an object holds that is a dict elsewhere in the function."""
        found = [_held_dict(function.inner) for function in functions]
        if all(found):
            yield site.finding(
                keyword,
                f"On {site.release('jax')} every call raises ValueError where that is a dict: out_axes has the "
                "structure of the results.",
                label=f"a tuple, and {named(functions[0])} returns `{found[0]}`, one dict",
                help="give one entry for each result, or one number for all",
                certainty=Certainty.POSSIBLE,
                form="held-dict",
                why=f"`{found[0]} = {{}}` stands in the function",
            )


def _held_dict(inner: Value) -> str:
    """The attribute that a function returns and also sets to a dict: `params = ctx.params; ctx.params = {}`."""
    if not isinstance(inner, Function) or not isinstance(inner.node, ast.FunctionDef):
        return ""
    file = inner.place.file
    returns = file.walked(file.scope(inner.node)).returns
    node = returns[0].value if len(returns) == 1 else None
    if isinstance(node, ast.Name):
        node = assigned_once(file, node)
    if not isinstance(node, ast.Attribute):
        return ""
    written = file.text(node)
    for part in walk(inner.node):
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.Dict | ast.DictComp):
            if any(file.text(target) == written for target in part.targets):
                return written
    return ""


def _too_many(function: Jitted, given: int) -> bool:
    parameters = function.parameters
    return parameters is not None and not parameters.star and given > len(parameters.positional)


def _too_few(function: Jitted, given: int, static: tuple[int, ...]) -> bool:
    parameters = function.parameters
    if parameters is None or parameters.star or not given:
        return False
    return given < parameters.required - sum(1 for number in static if -1 < number < parameters.required)


def _fits(seen: SeenCall, given: int, static: tuple[int, ...]) -> bool:
    """Whether the entries fit a call; entries for static arguments may be left out."""
    count = seen.count
    if count is None:
        return True
    return count - sum(1 for number in static if number < count) <= given <= count
