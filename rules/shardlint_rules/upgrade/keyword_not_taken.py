"""SL908."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from shardlint.config.versions import show
from shardlint.model.signatures import Parameters, parameters_of
from shardlint.model.values import Api, Function, Place, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Keywords, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint_rules.upgrade.table import Keyword, table

# Keywords by which shardings, meshes and donation are handed on, the old names among them.
_KEYWORDS = (
    "in_axis_resources",
    "out_axis_resources",
    "axis_resources",
    "in_shardings",
    "out_shardings",
    "in_specs",
    "out_specs",
    "check_rep",
    "check_vma",
    "axis_shapes",
    "axis_types",
    "donate_argnums",
    "static_argnums",
    "partition_spec",
    "out_sharding",
    "mesh_shape",
    "mesh_axes",
)


class KeywordNotTaken(Rule):
    """A function of the project is called with a keyword argument that it does not take.

    ## What it does
    Reports calls of the project's own functions with a keyword for shardings, specs or meshes (`in_axis_resources`,
    `in_shardings`, `out_specs`, `check_rep`, `donate_argnums` and the like) where the function has no such parameter
    and no `**kwargs`; or hands its `**kwargs` to a function of jax that does not take it on the project's release.

    ## Why it hurts
    The call raises `TypeError`. This is how a renaming in jax reaches callers of a wrapper: the wrapper was changed,
    and some calls of it were not.

    ## Evidence
    Python's own rule for calls; which keywords jax takes was looked up in the signatures of nine releases (SL903).
    """

    code = "SL908"
    name = "keyword-not-taken"
    harm = Harm.CRASH
    triggers = (Keywords(*_KEYWORDS),)
    in_version_checks = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """A finding for each keyword that is not taken."""
        value = site.value(site.call.func)
        parameters = parameters_of(value, site.program.evaluator)
        function = options(value)[0]
        if parameters is None or len(options(value)) != 1 or not isinstance(function, Function):
            return
        for keyword in site.call.keywords:
            if keyword.arg not in _KEYWORDS or keyword.arg in (
                *parameters.positional,
                *parameters.keyword_only,
            ):
                continue
            if not parameters.double_star:
                yield self._not_taken(site, function, parameters, keyword)
            else:
                yield from self._handed_on(site, function, keyword)

    def _not_taken(
        self, site: Site, function: Function, parameters: Parameters, keyword: ast.keyword
    ) -> Finding:
        assert keyword.arg is not None
        has = (*parameters.positional, *parameters.keyword_only)
        near = difflib.get_close_matches(keyword.arg, has, n=1)
        return self._finding(
            site,
            keyword,
            f"{_shown(site, function)} takes no {keyword.arg}",
            f"This raises TypeError: {_shown(site, function)} has no parameter of that name, and no **kwargs.",
            f"did you mean {near[0]}=?" if near else f"it takes {', '.join(has)}" if has else "",
        )

    def _handed_on(self, site: Site, function: Function, keyword: ast.keyword) -> Iterator[Finding]:
        for entry, call in _gets(site, function, keyword.arg or ""):
            until = (
                f"; jax {show(entry.accepted_until)} removed it" if entry.accepted_until is not None else ""
            )
            yield self._finding(
                site,
                keyword,
                f"{entry.function} takes no {entry.keyword} on {site.release('jax')}",
                f"On {site.release('jax')} this raises TypeError: {_shown(site, function)} hands it on to "
                f"{entry.function} at line {call.lineno}, which does not take it{until}.",
                f"write {entry.rename}=" if entry.rename else entry.instead,
            )

    def _finding(self, site: Site, keyword: ast.keyword, label: str, message: str, help: str) -> Finding:
        start = site.file.span(keyword)[0]
        return site.finding(
            keyword,
            label,
            message,
            help=help,
            span=(start, start + len(keyword.arg or "")),
            certainty=Certainty.PROVEN,
        )


def _shown(site: Site, function: Function) -> str:
    node = function.node
    name = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else "the lambda"
    file = function.place.file
    return f"{name} (line {node.lineno})" if file is site.file else f"{name} ({file.path.name}:{node.lineno})"


def _gets(site: Site, function: Function, name: str) -> Iterator[tuple[Keyword, ast.Call]]:
    """The functions of jax that a function hands its `**kwargs` to, and that do not take this keyword."""
    file, kwargs = function.place.file, function.node.args.kwarg
    if kwargs is None or _changed(file, function, kwargs.arg):
        return
    for call in file.walked(file.scope(function.node)).calls:
        starred = [one.value for one in call.keywords if one.arg is None]
        if not any(isinstance(one, ast.Name) and one.id == kwargs.arg for one in starred):
            continue
        callee = options(site.program.evaluator.value(Place(file, call.func)))
        entries = [table().keywords.get((one.written, name)) for one in callee if isinstance(one, Api)]
        for entry in entries:
            if len(callee) == 1 and entry is not None and not entry.accepted(site.target("jax")):
                yield entry, call


def _changed(file: FileFacts, function: Function, kwargs: str) -> bool:
    """Whether a function does anything with its `**kwargs` but hand them on."""
    scope = file.scope(function.node)
    uses = [node for node in file.mentions_in(scope, kwargs) if isinstance(node, ast.Name)]
    return any(
        not (isinstance(parent := file.parent(use), ast.keyword) and parent.arg is None) for use in uses
    )
