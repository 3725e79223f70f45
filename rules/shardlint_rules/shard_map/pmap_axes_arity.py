"""SL420."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.lifetime.donation import PMAP
from shardlint.model.signatures import Jitted, numbers, wrappings
from shardlint.model.values import Items
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.jit.sharded import SeenCall, calls, count_of, named, several, value_of
from shardlint_rules.jit.structure import differ, is_tree, kind_of, returned_by

_SETTINGS = ("in_axes", "out_axes")
_ONE_FOR_EACH = "write one entry for each {0}, or a single number for all"
_POSITIONAL = "a tuple has one entry for each argument passed by position"


class PmapAxesArity(Rule):
    """`in_axes` or `out_axes` of `pmap` does not match the arguments or results of the function.

    The call raises ValueError ("pytree structure error"). This often remains after an argument or result is added or
    removed.

    ## Reports
    - proven: a tuple for `in_axes` with more entries than the function has parameters, or with another number than a
      call passes by position.
    - proven: a list for `in_axes`.
    - proven: a tuple or list for `out_axes` whose length or kind differs from that of every `return`.
    - `too-few` (likely): a tuple for `in_axes` with fewer entries than required parameters, if no call is in sight.

    ## Write instead
    A single number applies to all arguments, or all results.

    ## Limits
    Arguments passed by keyword and omitted defaults have no entry. Entries for static arguments are optional.
    """

    code = "SL420"
    name = "pmap-axes-arity"
    harm = Harm.CRASH
    likely = ("too-few",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "too-few": "The callers pass all required arguments by position."
    }
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
                "Every call raises ValueError: `in_axes` is a list, and `pmap` needs a tuple.",
                help=f"write a tuple of {len(value.items)}",
                why="in_axes is a tree prefix of the tuple of arguments",
            )
            return
        given = len(value.items)
        if all(_too_many(function, given) for function in functions):
            most = len(functions[0].parameters.positional) if functions[0].parameters is not None else 0
            yield site.finding(
                keyword,
                f"Every call raises ValueError: `in_axes` has {several(given, 'entry')}, but "
                f"{named(functions[0])} takes {several(most, 'argument')}.",
                help=_ONE_FOR_EACH.format("argument"),
                why=_POSITIONAL,
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
            f"A call raises ValueError: `in_axes` has {several(given, 'entry')}, but {named(function)} requires "
            f"{several(least, 'argument')}.",
            help="add an entry for each argument, None for what all devices share",
            certainty=Certainty.POSSIBLE,
            form="too-few",
            why=_POSITIONAL,
        )

    def _unfit(self, site: Site, seen: SeenCall, given: int) -> Finding:
        here = seen.file is site.file
        keyword = site.keyword("in_axes")
        assert keyword is not None
        arguments = several(seen.count or 0, "argument")
        return site.finding(
            seen.call if here else keyword,
            f"The call raises ValueError: `in_axes` has {several(given, 'entry')}, but the call passes {arguments}.",
            help=_ONE_FOR_EACH.format("argument"),
            why=f"{_POSITIONAL}; "
            + (
                f"in_axes is at line {keyword.value.lineno}"
                if here
                else f"{seen.file.path.name}:{seen.call.lineno} calls it"
            ),
        )

    def _outputs(self, site: Site, functions: list[Jitted]) -> Iterator[Finding]:
        keyword = site.keyword("out_axes")
        given = count_of(site, functions[0], "out_axes")
        value = value_of(site, functions[0], "out_axes")
        if keyword is None or given is None or not is_tree(value):
            return
        returned = [returned_by(site, function.inner) for function in functions]
        if not all(found and all(differ(value, one) for one in found) for found in returned):
            return
        yield site.finding(
            keyword,
            f"Every call raises ValueError: `out_axes` is {kind_of(value)}, but {named(functions[0])} returns "
            f"{kind_of(returned[0][0])}.",
            help=_ONE_FOR_EACH.format("result"),
            why="out_axes is a tree prefix of the results",
        )


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
