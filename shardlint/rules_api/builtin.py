"""Findings about the checked files and comments themselves, and of what the settings ban (SL0).

The engine makes them; only the last is triggered by sites, which the settings name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.config.own_names import OwnNames
from shardlint.model.values import Api, ClassValue, Function, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Names, Rule, Trigger
from shardlint.rules_api.site import Site


class _Own(Rule):
    harm = Harm.COST

    def check(self, site: Site) -> Iterator[Finding]:
        """Never triggered."""
        yield from ()


class FileNotParsed(_Own):
    """A file that shardlint could not read.

    ## What it does
    Reports a file with a syntax error, or with bytes that are not text in its encoding.

    ## Why it hurts
    Nothing in such a file was checked; of a notebook, all but the cell that cannot be parsed. When a newer Python can
    parse it, the message says so: run shardlint there.

    ## Use instead
    Fix the file, or leave it out with `exclude`.
    """

    code = "SL001"
    name = "file-not-parsed"
    harm = Harm.CRASH


class UnusedSuppression(_Own):
    """A suppression that suppresses nothing.

    ## What it does
    Reports `# shardlint: ignore[...]` where no finding of that code is. A comment that is not written as a
    suppression, or names a code that no rule has, silences nothing; it is told and left for you to fix.

    ## Why it hurts
    It hides the next mistake on that line.

    ## Example
    ```python
    x = jax.device_put(x, sharding)  # shardlint: ignore[SL201]
    ```

    ## Use instead
    ```python
    x = jax.device_put(x, sharding)
    ```

    ## Fix safety
    Safe: only the comment, or the code in it, is removed.
    """

    code = "SL002"
    name = "unused-suppression"
    fixes = "safe"


class SuppressionWithoutReason(_Own):
    """A suppression that does not say why.

    ## What it does
    Reports `# shardlint: ignore[...]` with nothing after the bracket. Off unless selected.

    ## Why it hurts
    Nobody can tell later whether it still holds.

    ## Example
    ```python
    x = jax.device_put(x, sharding)  # shardlint: ignore[SL201]
    ```

    ## Use instead
    ```python
    x = jax.device_put(x, sharding)  # shardlint: ignore[SL201] runs eagerly, see tests/test_put.py
    ```
    """

    code = "SL003"
    name = "suppression-without-reason"
    default = False


class BannedCall(Rule):
    """A name that the project's settings ban.

    ## What it does
    Reports each call of, and each reference to, what the setting `banned-calls` names, with what it says to write
    instead. A name is the full one of a library (`jax.device_put`) or of a module of the project (`acme.old.place`);
    `jax.experimental.*` bans all that the module and those in it have. Aliases, `from` imports, other spellings
    of the same name and modules of the project that hand it on are followed. An import is reported where the file
    itself does not use what it takes, so also where a module hands a name on under another one, by which it is not
    followed. Without the setting nothing is reported.

    Where the name may be used after all, as in the module that wraps it, leave the rule out with `per-file-ignores`, or
    say `# shardlint: ignore[SL005]` with the reason.

    ## Why it hurts
    Nothing is claimed of what the program does: the project's authors have decided it.

    ## Example
    ```toml
    [tool.shardlint.banned-calls]
    "jax.device_put" = "use acme.place, which keeps the mesh"
    ```
    ```python
    from jax import device_put as put

    x = put(x, sharding)
    ```

    ## Use instead
    ```python
    import acme

    x = acme.place(x, sharding)
    ```
    """

    code = "SL005"
    name = "banned-call"
    harm = Harm.COST
    setting = "banned-calls"

    def woken_by(self, own: OwnNames) -> tuple[Trigger, ...]:
        """The names that are banned."""
        return (Names(*own.banned),) if own.banned else ()

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each place where the name is read."""
        if isinstance(site.syntax, ast.alias):
            node: ast.AST | None = site.syntax if _only_imported(site, site.syntax) else None
            full, certain = site.written, True
        else:
            node, full, certain = _whole(site)
        if node is None:
            return
        shown = site.shown(node)
        yield site.finding(
            node,
            f"This project bans {site.api} (`banned-calls` in its settings): {site.program.own.banned[site.api]}",
            label="banned" if shown == full else f"`{shown}` is {full}, banned",
            certainty=Certainty.PROVEN if certain else Certainty.POSSIBLE,
        )


def _only_imported(site: Site, alias: ast.alias) -> bool:
    """Whether a file takes a name and does not read it itself: others may take it from there."""
    bound = alias.asname or alias.name.partition(".")[0]
    reads = (one for one in site.file.mentions(bound) if isinstance(one, ast.Name))
    return not any(isinstance(one.ctx, ast.Load) for one in reads)


def _whole(site: Site) -> tuple[ast.AST | None, str, bool]:
    """The name as far as it is written out, in full, and whether it surely is that; None for a module alone."""
    node, full = site.syntax, site.written
    if not site.api.endswith(".*"):
        return node, full, len(options(site.value(node))) == 1
    known = options(site.value(node))
    while isinstance(outer := site.file.parent(node), ast.Attribute) and outer.value is node:
        found = options(site.value(outer))
        if not all(isinstance(one, Api | Function | ClassValue) for one in found):
            break
        node, known, full = outer, found, f"{full}.{outer.attr}"
    return (node if full.startswith(site.api[:-1]) else None), full, len(known) == 1
