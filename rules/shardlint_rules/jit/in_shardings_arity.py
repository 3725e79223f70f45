"""SL210."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.program.signatures import JITS, Jitted, wrappings
from shardlint.program.values import Function, Items, Table, Value, Wrapped, options
from shardlint.rule import Calls, Finding, Harm, Rule
from shardlint.site import Site
from shardlint_rules.jit.sharded import Counts, calls, count_of, counts, named, several, value_of

# What they return has the structure of what the function returns.
_KEEPING = ("functools.partial", "jax.vmap", "jax.checkpoint", "jax.named_call")


class InShardingsArity(Rule):
    """`in_shardings` or `out_shardings` has another number of entries than the function has arguments or results.

    ## What it does
    Reports a tuple or list for `in_shardings` of `jax.jit` and `pjit` whose length no call of the function can have,
    or that one of its calls does not have; and one for `out_shardings` whose length or kind is not that of what every
    `return` of the function gives.

    ## Why it hurts
    The call raises ValueError: a tuple has one entry for each argument given by position (static ones do not count,
    and defaults only when they are given), and `out_shardings` has the structure of the results. A single sharding
    goes for all.

    ## Example
    ```python
    @functools.partial(jax.jit, in_shardings=(replicated, by_row))
    def step(params, batch, key):
        return params
    ```

    ## Use instead
    ```python
    @functools.partial(jax.jit, in_shardings=(replicated, by_row, replicated))
    def step(params, batch, key):
        return params
    ```
    Shardings for one argument that is itself a tuple are put in a tuple of one: `in_shardings=((a, b),)`.

    ## Evidence
    Rows D1 and D8 of the experiments, on jax 0.4.38 to 0.12: the error comes with the call, not when wrapping. Counted
    are the arguments left by `functools.partial` and by the self of a bound method; functions with `*args`, and those
    whose definition is not seen, are judged by their calls alone.
    """

    code = "SL210"
    name = "in-shardings-arity"
    harm = Harm.CRASH
    wakes = (Calls(*JITS, near=("in_shardings", "out_shardings")),)

    def check(self, site: Site) -> Iterator[Finding]:
        """Findings at the keywords, or at calls that they do not fit."""
        if site.expected_to_fail or site.guarded:
            return
        functions = list(wrappings(site.program, site.file, site.call, site.form))
        if functions:
            yield from self._inputs(site, functions)
            yield from self._outputs(site, functions)

    def _inputs(self, site: Site, functions: list[Jitted]) -> Iterator[Finding]:
        keyword = site.keyword("in_shardings")
        given = count_of(site, functions[0], "in_shardings")
        if keyword is None or given is None:
            return
        found = [counts(site, function) for function in functions]
        wrong = [
            one for one in found if one is not None and not one.fits(given) and not one.with_static(given)
        ]
        if wrong and len(wrong) == len(found):
            yield site.finding(
                keyword,
                f"{several(given, 'entry')}, and {named(functions[0])} takes {_takes(wrong[0])}",
                f"On {site.on('jax')} every call raises ValueError: a tuple has one entry for each argument given by "
                "position.",
                help="give one entry for each argument, or one sharding for all; "
                "for one argument that is a tuple write in_shardings=((...),)",
            )
            return
        if any(one is not None and one.with_static(given) for one in found):
            return  # SL212 tells of these
        for seen in calls(site):
            if seen.file is not site.file or seen.arguments.keywords or seen.arguments.open_keywords:
                continue
            count = seen.count
            static = counts(site, seen.function)
            if count is None or static is None:
                continue
            dynamic = sum(1 for position in range(count) if position not in static.static)
            if dynamic != given:
                yield site.finding(
                    seen.call,
                    f"{several(dynamic, 'argument')}, and in_shardings at line {keyword.value.lineno} has "
                    f"{several(given, 'entry')}",
                    f"On {site.on('jax')} this call raises ValueError.",
                    help="a tuple has one entry for each argument given by position, defaults only when they are given",
                )

    def _outputs(self, site: Site, functions: list[Jitted]) -> Iterator[Finding]:
        keyword = site.keyword("out_shardings")
        given = value_of(site, functions[0], "out_shardings")
        if keyword is None or not _is_tree(given):
            return
        returned = [_returned(site, function.inner) for function in functions]
        if not all(found and all(_differ(given, value) for value in found) for found in returned):
            return
        first = returned[0][0]
        yield site.finding(
            keyword,
            f"{_kind(given)}, and {named(functions[0])} returns {_kind(first)}",
            f"On {site.on('jax')} every call raises ValueError: out_shardings has the structure of the results.",
            help="give one entry for each result, or one sharding for all",
        )


def _takes(found: Counts) -> str:
    if found.most is None:
        return f"at least {several(found.least, 'argument')}"
    count = several(found.most, "argument")
    count = count if found.least == found.most else f"{found.least} to {count}"
    return f"{count} that {'is' if found.most == 1 else 'are'} not static" if found.static else count


def _is_tree(value: Value | None) -> bool:
    return isinstance(value, Items | Table) and not value.open


def _returned(site: Site, function: Value) -> list[Value]:
    """What each `return` of a function gives; nothing where its definition is not seen."""
    while isinstance(function, Wrapped) and function.api.name in _KEEPING:
        function = function.inner
    if not isinstance(function, Function) or isinstance(function.node, ast.AsyncFunctionDef):
        return []
    file, node = function.place.file, function.node
    if isinstance(node, ast.Lambda):
        return list(options(site.program.value(file, node.body)))
    scope = file.walked(file.scope(node))
    if any(not isinstance(one, ast.Return) or one.value is None for one in scope.returns):
        return []
    return [
        v
        for one in scope.returns
        if one.value is not None
        for v in options(site.program.value(file, one.value))
    ]


def _differ(given: Value | None, returned: Value) -> bool:
    """Whether shardings surely cannot be those of a result."""
    if isinstance(returned, Table) and not returned.open:
        return isinstance(given, Items)
    if not isinstance(returned, Items) or returned.open or returned.kind not in ("tuple", "list"):
        return False
    if not isinstance(given, Items):
        return True
    return given.kind != returned.kind or len(given.items) != len(returned.items)


def _kind(value: Value | None) -> str:
    if isinstance(value, Items):
        return f"a {value.kind} of {len(value.items)}"
    return "a dict"
