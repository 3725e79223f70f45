"""SL228."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.values import Constant, options
from shardlint.rules_api.rule import Calls, Edit, Finding, Fix, Harm, Rule, Safety, detector, on_lines
from shardlint.rules_api.site import Site

# The settings that positions after the function meant before jax 0.7.
_ORDER = (
    "in_shardings",
    "out_shardings",
    "static_argnums",
    "static_argnames",
    "donate_argnums",
    "donate_argnames",
    "keep_unused",
    "device",
    "backend",
    "inline",
    "abstracted_axes",
)


class PositionalJitShardings(Rule):
    """`jax.jit` gets shardings or other settings by position.

    From jax 0.7 the call raises TypeError: `jax.jit` takes one positional argument. In older releases the second
    position was `in_shardings`, and the third was `out_shardings`.

    ## Reports
    - proven: a call of `jax.jit` with more than one positional argument.

    ## Fix
    Safe: the fix passes each argument by keyword. No fix for a call with `**kwargs`. No fix if a number or string is at
    the position of the shardings: it may be meant for `static_argnums`.

    ## Limits
    jax 0.7.0 and 0.7.1 raise the same error, but the rule reports only from jax 0.7.2.
    """

    code = "SL228"
    name = "positional-jit-shardings"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.7.2"}
    triggers = (Calls("jax.jit", file_says=("jit(", "jit as ", on_lines(r"(?!from |import |@)", "jit"))),)
    in_version_checks = False
    fixes = "safe"

    @detector("call")
    def report_argument(self, site: Site) -> Finding | None:
        """The second positional argument of a jit."""
        extra = site.call.args[1:]
        if not extra:
            return None
        if any(isinstance(one, ast.Starred) for one in site.call.args):
            return None
        names = _ORDER[: len(extra)]
        written = ", ".join(f"{name}={site.text(one)}" for name, one in zip(names, extra, strict=False))
        return site.finding(
            extra[0],
            f"On {site.release('jax')} this raises TypeError: `jax.jit` takes one positional argument.",
            label="passed by position",
            help="pass all arguments except the function by keyword",
            fix=_write_fix(site, extra, " ".join(written.split())),
        )


def _write_fix(site: Site, extra: list[ast.expr], written: str) -> Fix | None:
    taken = {keyword.arg for keyword in site.call.keywords}
    names = _ORDER[: len(extra)]
    if len(extra) > len(_ORDER) or taken.intersection(names) or None in taken:
        return None
    if any(_is_number(site, one) for one in extra[:2]):
        return None
    edits = []
    for name, one in zip(names, extra, strict=True):
        start, _ = site.file.character_span(one)
        edits.append(Edit(start, start, f"{name}="))
    return site.fix(
        Safety.SAFE, f"write {written}" if len(written) < 80 else "pass the settings by keyword", edits
    )


def _is_number(site: Site, node: ast.expr) -> bool:
    return any(
        isinstance(one, Constant) and isinstance(one.value, int | str) for one in options(site.value(node))
    )
