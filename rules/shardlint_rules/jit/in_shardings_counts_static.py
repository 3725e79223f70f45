"""SL212."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.program.signatures import JITS, Jitted, wrappings
from shardlint.program.values import Constant
from shardlint.rule import Calls, Finding, Fix, Harm, Rule, Safety
from shardlint.site import Site
from shardlint_rules.jit.sharded import count_of, counts, named


class InShardingsCountsStatic(Rule):
    """`in_shardings` has entries for static arguments.

    ## What it does
    Reports a tuple or list for `in_shardings` of `jax.jit` and `pjit` that fits the function only if its static
    arguments are counted too.

    ## Why it hurts
    Static arguments are not counted (while `donate_argnums` and `static_argnums` do count them), so every call raises
    ValueError. With defaults the entries may fit by chance, and each stands for the argument after the one it was
    meant for.

    ## Example
    ```python
    @functools.partial(jax.jit, static_argnums=1, in_shardings=(by_row, None, replicated))
    def step(x, steps, params):
        return x
    ```

    ## Use instead
    ```python
    @functools.partial(jax.jit, static_argnums=1, in_shardings=(by_row, replicated))
    def step(x, steps, params):
        return x
    ```

    ## Fix safety
    Safe where the entries of the static arguments are None: they say that they are for no array. Unsafe where they are
    shardings, which may have been meant for another argument.

    ## Evidence
    Row D3 of the experiments, on jax 0.4.38 to 0.12, by position and by `static_argnames`.
    """

    code = "SL212"
    name = "in-shardings-counts-static"
    harm = Harm.CRASH
    wakes = (Calls(*JITS, near=("in_shardings",)),)
    fixes = "both"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a tuple that counts static arguments."""
        keyword = site.keyword("in_shardings")
        if keyword is None or site.expected_to_fail or site.guarded:
            return
        functions = list(wrappings(site.program, site.file, site.call, site.form))
        given = count_of(site, functions[0], "in_shardings") if functions else None
        if given is None:
            return
        found = [counts(site, function) for function in functions]
        if not all(one is not None and one.with_static(given) for one in found):
            return
        static = {tuple(sorted(one.static)) for one in found if one is not None}
        dropped = sorted(position for one in static for position in one if position < given)
        yield site.finding(
            keyword,
            f"{given} entries, {len(dropped)} of them for {_static(functions[0], dropped)}",
            f"On {site.on('jax')} every call of {named(functions[0])} raises ValueError: static arguments have none.",
            help="drop the entries of static arguments",
            fix=_fix(site, keyword.value, dropped) if len(static) == 1 else None,
        )


def _static(function: Jitted, positions: list[int]) -> str:
    names = function.parameters.positional if function.parameters is not None else ()
    shown = ", ".join(
        f"`{names[position]}`" if position < len(names) else f"{position}" for position in positions
    )
    return f"the static {shown}"


def _fix(site: Site, value: ast.expr, dropped: list[int]) -> Fix | None:
    import libcst as cst

    from shardlint import islands

    if not isinstance(value, ast.Tuple | ast.List) or "#" in site.text(value):
        return None
    if any(isinstance(element, ast.Starred) for element in value.elts):
        return None
    display = site.island(value)
    if not isinstance(display, cst.Tuple | cst.List):
        return None
    kept = [element for index, element in enumerate(display.elements) if index not in dropped]
    if not kept:
        return None
    comma = display.elements[-1].comma
    if isinstance(display, cst.Tuple) and len(kept) == 1 and not isinstance(comma, cst.Comma):
        comma = cst.Comma()
    kept[-1] = kept[-1].with_changes(comma=comma)
    text = islands.code(display.with_changes(elements=kept))
    nothing = all(site.value(value.elts[position]) == Constant(None) for position in dropped)
    shown = " ".join(text.split())
    if nothing:
        return site.fix(Safety.SAFE, f"write: in_shardings={shown}", [site.replace(value, text)])
    return site.fix(
        Safety.UNSAFE,
        f"write: in_shardings={shown}",
        [site.replace(value, text)],
        "the entry dropped is a sharding, which may have been meant for another argument",
    )
