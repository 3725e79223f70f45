"""SL212."""

from __future__ import annotations

import ast
import re

from shardlint.model.signatures import JITS, Jitted
from shardlint.model.values import Constant
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint_rules.jit.in_shardings_entries import count_of, counts_of_parameters, describe_function


class InShardingsCountsStatic(Rule):
    """`in_shardings` has entries for static arguments.

    Every call raises ValueError. Static arguments have no entry in `in_shardings`, although `donate_argnums` and
    `static_argnums` count them.

    ## Reports
    - proven: a tuple or list as `in_shardings` of `jax.jit` or `pjit` whose length matches the function only if static
      arguments count.

    ## Fix
    Removes the entries of static arguments. Safe if these entries are None, and the other entries are equal or named
    after their arguments (`params_sharding` for `params`). Otherwise unsafe. No fix if an entry is named after another
    argument.
    """

    code = "SL212"
    name = "in-shardings-counts-static"
    bound = True
    harm = Harm.CRASH
    triggers = (Calls(*JITS, file_says=("in_shardings",)),)
    in_version_checks = False
    fixes = "both"

    @detector("call", "partial")
    def report_tuple(self, site: Site) -> Finding | None:
        """A tuple of in_shardings that counts static arguments."""
        keyword = site.keyword("in_shardings")
        if keyword is None:
            return None
        functions = site.find_wrapped()
        given = count_of(site, functions[0], "in_shardings") if functions else None
        if given is None:
            return None
        found = [counts_of_parameters(site, function) for function in functions]
        if not all(one is not None and one.is_accepted_with_static(given) for one in found):
            return None
        static = {tuple(sorted(one.static)) for one in found if one is not None}
        dropped = sorted(position for one in static for position in one if position < given)
        fix, kept = None, ""
        if len(static) == 1:
            fix, kept = _write_fix(site, keyword.value, dropped, functions[0])
        return site.finding(
            keyword,
            f"Every call of {describe_function(functions[0])} raises ValueError: "
            "in_shardings has an entry for a static argument.",
            why=f"{len(dropped)} of {given} entries {'is' if len(dropped) == 1 else 'are'} for "
            f"{_find_static(functions[0], dropped)}",
            help="remove the entries of static arguments",
            fix=fix,
            kept=kept,
        )


def _find_static(function: Jitted, positions: list[int]) -> str:
    names = function.parameters.positional if function.parameters is not None else ()
    shown = ", ".join(
        f"`{names[position]}`" if position < len(names) else f"{position}" for position in positions
    )
    return f"the static {shown}"


def _write_fix(site: Site, value: ast.expr, dropped: list[int], function: Jitted) -> tuple[Fix | None, str]:
    """The fix; or why there is none, where more is to be said."""
    if not isinstance(value, ast.Tuple | ast.List) or "#" in site.text(value):
        return None, ""
    if any(isinstance(element, ast.Starred) for element in value.elts):
        return None, ""
    text = _tuple_without_elements(site, value, dropped)
    if text is None:
        return None, ""
    names = function.parameters.positional if function.parameters is not None else ()
    kept = [
        (names[position] if position < len(names) else "", element)
        for position, element in enumerate(value.elts)
        if position not in dropped and site.value(element) != Constant(None)
    ]
    for name, element in kept:
        other = _parameter_named_by_entry(site, element, name, names)
        if other:
            return None, f"`{site.text(element)}` would apply to `{name}`, but its name says `{other}`"
    message = f"write: in_shardings={' '.join(text.split())}"
    edits = [site.replace(value, text)]
    if any(site.value(value.elts[position]) != Constant(None) for position in dropped):
        why = "the removed entry is a sharding, perhaps intended for another argument"
        return site.fix(Safety.UNSAFE, message, edits, why), ""
    same = len({site.text(element) for _, element in kept}) <= 1
    if same or all(_split_words(name) & _split_words(site.text(element)) for name, element in kept):
        return site.fix(Safety.SAFE, message, edits), ""
    why = "only the position of a sharding tells which argument it is for"
    return site.fix(Safety.UNSAFE, message, edits, why), ""


def _tuple_without_elements(site: Site, value: ast.expr, dropped: list[int]) -> str | None:
    """The tuple or list without some of its elements."""
    import libcst as cst

    from shardlint.rules_api import cst as islands

    display = site.parsed(value)
    if not isinstance(display, cst.Tuple | cst.List):
        return None
    kept = [element for index, element in enumerate(display.elements) if index not in dropped]
    if not kept:
        return None
    comma = display.elements[-1].comma
    if isinstance(display, cst.Tuple) and len(kept) == 1 and not isinstance(comma, cst.Comma):
        comma = cst.Comma()
    kept[-1] = kept[-1].with_changes(comma=comma)
    return islands.code_of_node(display.with_changes(elements=kept))


def _parameter_named_by_entry(site: Site, entry: ast.expr, name: str, names: tuple[str, ...]) -> str:
    """Another parameter than its own that the text of an entry names."""
    words = _split_words(site.text(entry))
    if words & _split_words(name):
        return ""
    return next(
        (other for other in names if other != name and _split_words(other) and _split_words(other) <= words),
        "",
    )


def _split_words(text: str) -> set[str]:
    """The words of a text; single letters say nothing."""
    return {word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 1}
