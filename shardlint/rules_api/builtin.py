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
    """shardlint could not read this file.

    No rule checks this file. In a notebook, shardlint skips only the cell that it cannot parse.

    ## Reports
    - proven: a file with a syntax error, or a notebook cell with one.
    - proven: a file whose bytes are not valid text in its encoding.

    ## Example
    ```python
    mesh = jax.make_mesh((8,), ("data",)
    ```

    ## Write instead
    ```python
    mesh = jax.make_mesh((8,), ("data",))
    ```

    If the file is not meant to be Python, exclude it with the setting `exclude`. If only a newer Python can parse the
    file, the message says so. Run shardlint with that Python.
    """

    code = "SL001"
    name = "file-not-parsed"
    harm = Harm.CRASH


class UnusedSuppression(_Own):
    """A suppression comment matches no finding.

    The comment would hide a later mistake on that line.

    ## Reports
    - proven: `# shardlint: ignore[...]` on a line without a finding of that code.
    - proven: a suppression comment with a wrong form or an unknown code.

    ## Example
    ```python
    x = jax.device_put(x, sharding)  # shardlint: ignore[SL201]
    ```

    ## Write instead
    ```python
    x = jax.device_put(x, sharding)
    ```

    ## Fix
    Safe: removes the comment, or only the unused rule code if the comment lists several. No fix for a comment with a
    wrong form or an unknown code.
    """

    code = "SL002"
    name = "unused-suppression"
    fixes = "safe"


class SuppressionWithoutReason(_Own):
    """A suppression comment gives no reason.

    Without the reason, nobody can tell later whether the suppression is still needed.

    ## Reports
    - proven: `# shardlint: ignore[...]` with nothing after the bracket.

    ## Example
    ```python
    x = jax.device_put(x, sharding)  # shardlint: ignore[SL201]
    ```

    ## Write instead
    ```python
    x = jax.device_put(x, sharding)  # shardlint: ignore[SL201] runs eagerly, see tests/test_put.py
    ```

    ## Limits
    The rule is off by default. `select = ["SL003"]` turns it on.
    """

    code = "SL003"
    name = "suppression-without-reason"
    default = False


class BannedCall(Rule):
    """The code uses a name that the settings ban.

    The authors of the project decide which names are banned. The finding shows their advice.

    ## Reports
    - proven: a call of, or another reference to, a name in the setting `banned-calls`.
    - proven: an import of such a name in a file that does not use it, because other files can import it from there.
    - possible: a reference that may be the banned name or another value.

    A name is the full name of a library's function (`jax.device_put`) or of one of the project's modules
    (`acme.old.place`). `jax.experimental.*` bans the module and its submodules with everything in them. The rule
    follows aliases, `from` imports and other public names of the same function. It also follows modules of the project
    that re-export the name.

    ## Example
    ```toml
    [tool.shardlint.banned-calls]
    "jax.device_put" = "use acme.place, which keeps the mesh"
    ```
    ```python
    from jax import device_put as put

    x = put(x, sharding)
    ```

    ## Write instead
    ```python
    import acme

    x = acme.place(x, sharding)
    ```

    ## Limits
    Without the setting, nothing is reported. To allow the name in one module, such as its wrapper, use
    `per-file-ignores` or `# shardlint: ignore[SL005]` with a reason. If a module of the project re-exports the name
    under a new name, only its import is reported, not the uses of the new name.
    """

    code = "SL005"
    name = "banned-call"
    harm = Harm.COST
    setting = "banned-calls"

    def triggers_for(self, own_names: OwnNames) -> tuple[Trigger, ...]:
        """The names that are banned."""
        return (Names(*own_names.banned),) if own_names.banned else ()

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each place where the name is read."""
        if isinstance(site.syntax, ast.alias):
            node: ast.AST | None = site.syntax if _only_imported(site, site.syntax) else None
            full, certain = site.written, True
        else:
            node, full, certain = _full_name(site)
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
    """Return whether a file imports a name and does not read it itself. Other files may import it from there."""
    bound = alias.asname or alias.name.partition(".")[0]
    reads = (one for one in site.file.find_mentions(bound) if isinstance(one, ast.Name))
    return not any(isinstance(one.ctx, ast.Load) for one in reads)


def _full_name(site: Site) -> tuple[ast.AST | None, str, bool]:
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
