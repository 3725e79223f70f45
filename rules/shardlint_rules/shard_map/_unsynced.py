"""States whose batch statistics one use brings together first, and of which another takes the first device's.

Or evaluates with those of each device, on its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from shardlint.model.manual.mapped import definition
from shardlint.model.reach import lookup
from shardlint.model.signatures import jitted
from shardlint.model.values import Place, options
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import children, walk
from shardlint_rules.processes.given import given
from shardlint_rules.shard_map.per_device import PMAP

TAKES = r"[^#\n]*\b(?:unreplicate\w*|get_first\w*|first_(?:copy|replica|device)\w*|save_checkpoint\w*)\("
TAKEN = ("unreplicate", "get_first", "first_copy", "first_replica", "first_device", "save_checkpoint")
_TAKES = regex(r"(?:unreplicate|get_first|first_(?:copy|replica|device)|save_checkpoint)\w*$")
EVALUATES = r"[^#\n]*(?:eval|valid|predict)\w*\("
EVALUATING = ("eval", "valid", "predict")
_EVALUATES = regex(r"(?:\w*_)?(?:eval|valid|predict)\w*$")
_SYNCS = regex(r"(?i)_?(?:sync|average|merge|reduce|cross_replica)\w*(?:batch|bn|stat)\w*$")
# What makes the statistics alike in the step already.
_ALIKE = regex(
    r"BatchNorm[(,](?:[^()]|\([^()]*\)){0,300}?axis_name|SyncBatchNorm"
    r"|(?:pmean|psum)\([^\n]*(?:stats|mutated|mutable|new_vars|variables|model_state)"
)
_DEPTH = 3


def unsynced(site: Site) -> tuple[ast.expr, str, bool] | None:
    """What a site takes the first device's of, and the function that brings its statistics together elsewhere.

    And whether it evaluates with those of each device instead.
    """
    for call in _expressions(site.syntax):
        taken = _TAKES.match(last_name(call.func)) is not None
        if not taken and not _evaluates(site, call):
            continue
        synced = site.program.once(site.file, "synced states", lambda: frozenset(_synced(site)))
        for argument in (one for one in call.args if isinstance(one, ast.Name)):
            for name, sync, path in synced:
                files = {site.file.path}
                if name == argument.id and _apart(site, Place(site.file, argument), sync, files, 0):
                    if Path(path) in files and not _alike(site):
                        return argument, sync, not taken
    return None


def _expressions(statement: ast.AST) -> Iterator[ast.Call]:
    """The calls in a statement, those of the statements in it aside."""
    inner = [one for one in children(statement) if isinstance(one, ast.stmt | ast.ExceptHandler | ast.match_case)]
    apart = {id(part) for one in inner for part in walk(one)}
    yield from (one for one in walk(statement) if isinstance(one, ast.Call) and id(one) not in apart)


def _evaluates(site: Site, call: ast.Call) -> bool:
    """Whether a call runs, on each device, a function that reads batch statistics and makes none."""
    if not _EVALUATES.match(last_name(call.func)):
        return False
    found = options(site.program.followed(site.value(call.func)))
    function = jitted(found[0], site.program.evaluator, (PMAP,)) if len(found) == 1 else None
    written = definition(site.program, function.inner) if function is not None else None
    text = written.text() if written is not None else ""
    return "batch_stats" in text and "mutable" not in text


def _synced(site: Site) -> Iterator[tuple[str, str, str]]:
    """The names of what functions are given that bring batch statistics together, with the function and the file."""
    for file in site.program.project.holding(site.file.path, ("batch_stats",)):
        if file is None:
            continue
        for node in walk(file.tree):
            if isinstance(node, ast.FunctionDef) and _SYNCS.match(node.name) and "batch_stats" in file.text(node):
                for end in site.program.flow.in_sight(file, node).found:
                    call = end.place.node
                    first = call.args[0] if isinstance(call, ast.Call) and call.args else None
                    if end.kind == "called" and isinstance(first, ast.Name):
                        yield first.id, node.name, str(end.place.file.path)


def _apart(site: Site, place: Place, sync: str, files: set[Path], depth: int) -> bool:
    """Whether nothing brings a state together on the ways to a place that are seen, and one way is seen to its end.

    `files` are those that the ways go through.
    """
    file, node = place.file, place.node
    files.add(file.path)
    if not isinstance(node, ast.Name) or depth > _DEPTH:
        return False
    bindings, scope = lookup(file, node, node.id)
    seen = False
    for one in bindings:
        if one.kind == "param" and scope is not None:
            places = list(given(site.program, file, scope, node.id))
            if any(_is_sync(it.node, sync) for it in places):
                return False
            named = [it for it in places if isinstance(it.node, ast.Name)]
            if not all(_apart(site, it, sync, files, depth + 1) for it in named):
                return False
            seen = seen or bool(named)
        elif one.value is None or _is_sync(one.value, sync):
            return False
        else:
            seen = seen or one.kind == "unpack" or _steps(file, one.value)
    return seen


def _steps(file: FileFacts, value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ("step" in file.text(value.func) or "update" in file.text(value.func))


def _is_sync(node: ast.AST, sync: str) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == sync


def _alike(site: Site) -> bool:
    """Whether the statistics are alike on all devices without it, or there are none."""
    files = [site.file, *site.program.together(site.file)]
    return not any(one.says("BatchNorm") for one in files) or any(_ALIKE.search(one.source.text) for one in files)
