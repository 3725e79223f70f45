"""SL603."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Constant, Function, Items, Value, options
from shardlint.rules_api.rule import Calls, Edit, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site

_JIT = "haliax.named_jit"
_ARGNUMS = "TypeError"
_ARGNAMES = "ValueError"
_OTHERS = {
    "static_argnums": (_ARGNUMS, "remove the keyword: `named_jit` treats arguments that are not arrays as static"),
    "static_argnames": (_ARGNAMES, "remove the keyword: `named_jit` treats arguments that are not arrays as static"),
    "donate_argnames": (_ARGNAMES, "write `donate_kwargs=`, a dict from the names of keyword arguments to bools"),
    "donate": ("TypeError", "write `donate_args=`, one bool or a tuple with a bool for each positional argument"),
}


class NamedJitDonate(Rule):
    """`hax.named_jit` gets donation or static arguments in the form of `jax.jit`.

    The first call raises `ValueError` or `TypeError`. The error may name `filter_spec`, or arguments that you did not
    pass.

    ## Reports
    - proven: argument numbers in `donate_args`. It takes one bool, or a tuple with a bool for each positional argument.
    - proven: a `donate_args` tuple with more bools than the function has positional arguments.
    - proven: the keywords `donate_argnums`, `donate_argnames`, `donate`, `static_argnums` and `static_argnames`.

    ## Fix
    Writes `donate_args` with bools. Safe: the code raised before. There is no fix for numbers that may mean bools, such
    as `(0, 1)`.
    """

    code = "SL603"
    name = "named-jit-donate"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"haliax": ">=1.3"}
    triggers = (Calls(_JIT, file_says=("donate", "static_arg")),)
    in_version_checks = False
    fixes = "safe"

    @detector("call", "partial")
    def find_keywords(self, site: Site) -> Iterator[Finding]:
        """Each keyword that is not taken, or donates the wrong arguments."""
        for keyword in site.call.keywords:
            if keyword.arg == "donate_args":
                yield from self._report_flags(site, keyword)
            elif keyword.arg == "donate_argnums":
                yield self._report_argnums(site, keyword)
            elif keyword.arg in _OTHERS:
                raised, instead = _OTHERS[keyword.arg]
                yield site.finding(
                    keyword,
                    f"The first call raises {raised}: `named_jit` does not take `{keyword.arg}`.",
                    help=instead,
                )

    def _report_argnums(self, site: Site, keyword: ast.keyword) -> Finding:
        has_flags = any(other.arg == "donate_args" for other in site.call.keywords)
        flags = _indexes_as_flags(_list_indexes(site.value(keyword.value)))
        return site.finding(
            keyword,
            "The first call raises TypeError: `named_jit` takes no `donate_argnums`, and passes its own to `jax.jit`.",
            help="write `donate_args=`, a tuple with a bool for each positional argument",
            fix=None if has_flags or flags is None else self._write_fix(site, keyword, flags),
        )

    def _report_flags(self, site: Site, keyword: ast.keyword) -> Iterator[Finding]:
        values = options(site.value(keyword.value))
        if len(values) != 1:
            return
        value = values[0]
        text = ""
        if isinstance(value, Constant) and isinstance(value.value, str):
            text = "ValueError or TypeError: donate_args takes bools, not names"
        elif isinstance(value, Constant) and type(value.value) is int:
            text = "TypeError: 'int' object is not iterable"
        elif isinstance(value, Items) and any(_is_integer(item) for item in value.items):
            text = "ValueError: `filter_spec` must consist of booleans and callables only"
        if text:
            indexes = _list_indexes(value)
            flags = _indexes_as_flags(indexes) if indexes is not None and _is_surely_indexes(indexes) else None
            yield site.finding(
                keyword.value,
                f"The first call raises {text}.",
                why="donate_args holds a bool per positional argument; it is read when the function is first called",
                help="write a bool for each positional argument, such as `donate_args=(True, False)`",
                fix=None if flags is None else self._write_fix(site, keyword, flags),
            )
            return
        most = _count_most_arguments(site)
        if isinstance(value, Items) and not value.open and most is not None and len(value.items) > most:
            yield site.finding(
                keyword.value,
                f"The first call raises ValueError: Expected {most} donate_args, got {len(value.items)}.",
                help="write at most one bool for each positional argument",
            )

    def _write_fix(self, site: Site, keyword: ast.keyword, flags: str) -> Fix | None:
        if "#" in site.text(keyword):
            return None
        text = f"donate_args={flags}"
        edits: list[Edit] = [site.replace(keyword, text)]
        return site.fix(Safety.SAFE, f"write {text}", edits)


def _is_integer(value: Value) -> bool:
    return isinstance(value, Constant) and type(value.value) is int


def _list_indexes(value: Value) -> tuple[int, ...] | None:
    """The indexes that a value lists, all of them known and none counted from the end."""
    items = value.items if isinstance(value, Items) and not value.open else (value,)
    found = [item.value for item in items if isinstance(item, Constant)]
    numbers = tuple(item for item in found if type(item) is int and item >= 0)
    return numbers if len(numbers) == len(items) else None


def _is_surely_indexes(found: tuple[int, ...]) -> bool:
    """`(0,)` and `(0, 2)` are indexes; `(1,)` and `(0, 1)` may be flags."""
    return found == (0,) or any(number > 1 for number in found)


def _indexes_as_flags(found: tuple[int, ...] | None) -> str | None:
    """`(0, 2)` as `(True, False, True)`."""
    if not found or max(found) > 16:
        return None
    flags = [str(index in found) for index in range(max(found) + 1)]
    return f"({flags[0]},)" if len(flags) == 1 else f"({', '.join(flags)})"


def _count_most_arguments(site: Site) -> int | None:
    """The most positional arguments that the compiled function takes, where that is known."""
    decorated = site.decorated
    value: Value | None = None
    if decorated is not None and decorated.decorator_list[-1] is site.syntax:
        owner = site.file.parent(decorated)
        if isinstance(owner, ast.ClassDef):
            return None
        args = decorated.args
        return None if args.vararg is not None else len(args.posonlyargs) + len(args.args)
    function = site.argument("fn")
    value = site.value(function) if function is not None and site.form == "call" else None
    if not isinstance(value, Function) or value.bound or value.owner is not None:
        return None
    args = value.node.args
    return None if args.vararg is not None else len(args.posonlyargs) + len(args.args)
