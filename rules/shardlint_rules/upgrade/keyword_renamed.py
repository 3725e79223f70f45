"""SL903."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.config.versions import format_release
from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Calls, Edit, Finding, Fix, Harm, Needed, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint_rules.upgrade.name_places import is_the_library
from shardlint_rules.upgrade.name_table import Keyword, read_table, replacement_clause
from shardlint_rules.upgrade.shard_map import POSITIONS, edit_auto_to_axis_names, edits_naming_arguments

# Functions that are the same object under several names.
_SAME = {
    "jax.experimental.pjit.with_sharding_constraint": "jax.lax.with_sharding_constraint",
    "jax.with_sharding_constraint": "jax.lax.with_sharding_constraint",
    "jax.sharding.make_mesh": "jax.make_mesh",
}


class KeywordRenamed(Rule):
    """A call passes an argument that its function does not take in the project's release of jax.

    The call raises TypeError. A decorator raises at import.

    ## Reports
    - proven: `check_rep` or `auto` of `jax.shard_map`, which takes `check_vma` and `axis_names`.
    - proven: `check_vma` of the experimental `shard_map`, or `auto` of it from jax 0.8.
    - proven: `in_axis_resources` of `pjit`, or `axis_resources` of `with_sharding_constraint`.
    - proven: `axis_shapes` of `jax.make_mesh` from jax 0.12, or `axis_sizes` in older releases.
    - proven: `a_min` or `a_max` of `jnp.clip`, `global_arg_shapes` of `jax.pmap`, or `vma` of `jax.ShapeDtypeStruct`:
      all from jax 0.10.
    - proven: a mesh or specs of `jax.shard_map` that are passed by position.

    ## Fix
    Safe, because the call raised before. The fix passes the sizes of `jax.make_mesh` by position, which works on every
    release. `auto` becomes `axis_names` with the other axes of the mesh: their names if the code shows them, else
    `set(mesh.axis_names) - auto`.

    ## Limits
    `jax.shard_map` and `jax.experimental.shard_map.shard_map` have different keywords. The rule looks at the import to
    know which function is called.
    """

    code = "SL903"
    name = "keyword-renamed"
    harm = Harm.REMOVED
    triggers = (
        Calls("jax.shard_map"),
        Calls(
            "jax.experimental.pjit.pjit", "jax.lax.with_sharding_constraint", file_says=("axis_resources",)
        ),
        Calls("jax.make_mesh", file_says=("axis_shapes", "axis_sizes")),
        Calls("jax.pmap", file_says=("global_arg_shapes",)),
        Calls("jax.ShapeDtypeStruct", file_says=("vma",)),
        Calls("jax.numpy.clip", file_says=("a_min", "a_max")),
    )
    in_version_checks = False
    fixes = "safe"

    @detector("call", "partial")
    def find_keywords(self, site: Site) -> Iterator[Finding]:
        """The keywords and positions that the release does not accept."""
        function = _find_function(site)
        if function is None or is_the_library(site.program.project.root):
            return
        release = site.target("jax")
        for keyword in site.call.keywords:
            entry = read_table().keywords.get((function, keyword.arg or ""))
            if entry is not None and not entry.is_accepted_by(release):
                yield site.finding(
                    keyword,
                    f"On {site.release('jax')} this raises TypeError: {_describe_history(entry, site)}.",
                    help=replacement_clause(entry.instead) or _shortest_advice(entry),
                    fix=self._write_fix(site, keyword, entry),
                    span=(
                        site.file.character_span(keyword)[0],
                        site.file.character_span(keyword)[0] + len(entry.keyword),
                    ),
                )
        if function == "jax.shard_map":
            yield from self._report_positional(site)

    def _report_positional(self, site: Site) -> Iterator[Finding]:
        given = site.call.args[1:] if site.form == "partial" else site.call.args
        if len(given) < 2 or any(isinstance(argument, ast.Starred) for argument in given[:2]):
            return
        edits = edits_naming_arguments(site.file, given, rename=True)
        names = {keyword.arg for keyword in site.call.keywords}
        fix = None
        if edits is not None and not names & {None, *POSITIONS[: len(given) - 1]}:
            fix = site.fix(Safety.SAFE, "pass `mesh` and the specs by keyword", edits)
        yield site.finding(
            given[1],
            f"On {site.release('jax')} this raises TypeError: `jax.shard_map` takes only the function by position.",
            help="pass the other arguments by keyword: `mesh=`, `in_specs=` and `out_specs=`",
            fix=fix,
        )

    def _write_fix(self, site: Site, keyword: ast.keyword, entry: Keyword) -> Fix | None:
        start = site.file.character_span(keyword)[0]
        if entry.keyword == "auto":
            return self._fix_auto_keyword(site, keyword)
        if entry.rename is not None:
            if any(other.arg in (entry.rename, None) for other in site.call.keywords):
                return None
            edit = Edit(start, start + len(entry.keyword), entry.rename)
            return site.fix(Safety.SAFE, f"write {entry.rename}=", [edit], needs=_required_releases(entry))
        if not entry.positional or site.form != "call" or site.call.args:
            return None
        first = min(site.call.keywords, key=lambda other: site.file.character_span(other)[0])
        if first is keyword:
            value = site.file.character_span(keyword.value)[0]
            return site.fix(
                Safety.SAFE, "pass it by position", [Edit(start, _value_start(site, start, value), "")]
            )
        return None

    def _fix_auto_keyword(self, site: Site, keyword: ast.keyword) -> Fix | None:
        """`auto` of jax.shard_map; the experimental function goes with it (SL902)."""
        if _find_function(site) != "jax.shard_map":
            return None
        mapped = edit_auto_to_axis_names(site, site.call, keyword)
        return site.fix(Safety.SAFE, f"write {mapped.text}", [mapped]) if mapped is not None else None


def _required_releases(entry: Keyword) -> list[Needed]:
    """Return the requirement of the new name on older releases."""
    if entry.rename_from is None:
        return []
    return [Needed("jax", format_release(entry.rename_from), f"{entry.function}({entry.rename}=)")]


def _find_function(site: Site) -> str | None:
    """The function of the table that is called; None where it may be one of several."""
    node = site.callee_expression
    found = [option.written for option in options(site.value(node)) if isinstance(option, Api)]
    if len(options(site.value(node))) != 1 or not found:
        return None
    name = _SAME.get(found[0], found[0])
    if name not in {function for function, _ in read_table().keywords}:
        return None
    entry = read_table().names.get(name)
    there = entry is None or entry.state_on(site.target("jax")) in ("current", "deprecated")
    return name if there else None


def _describe_history(entry: Keyword, site: Site) -> str:
    if entry.rename is not None and (entry.never or entry.accepted_until is None):
        return f"`{entry.function}` takes `{entry.rename}`, not `{entry.keyword}`"
    if entry.never:
        return f"`{entry.function}` has no `{entry.keyword}`"
    if entry.accepted_until is not None and not _accepted_before(entry, site):
        renamed = f", now `{entry.rename}`" if entry.rename else ""
        return f"jax {format_release(entry.accepted_until)} removed `{entry.keyword}`{renamed}"
    assert entry.accepted_from is not None
    return f"`{entry.function}` takes `{entry.keyword}` from jax {format_release(entry.accepted_from)} on"


def _shortest_advice(entry: Keyword) -> str:
    if entry.rename:
        return f"write {entry.rename}="
    return f"pass the value of {entry.keyword}= by position" if entry.positional else f"remove {entry.keyword}="


def _accepted_before(entry: Keyword, site: Site) -> bool:
    return entry.accepted_from is not None and site.allows("jax", f"<{format_release(entry.accepted_from)}")


def _value_start(site: Site, start: int, value: int) -> int:
    """Where a keyword's value starts, a parenthesis around it included."""
    text = site.file.source.text
    position = text.index("=", start) + 1
    while position < value and text[position] in " \t":
        position += 1
    return position
