"""Findings about the checked files and comments themselves (SL0). The engine makes them; no site triggers them."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.rules_api.rule import Finding, Harm, Rule
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
    Nothing in such a file was checked. When a newer Python can parse it, the message says so: run shardlint there.

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
