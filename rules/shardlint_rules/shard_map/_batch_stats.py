"""Running statistics of BatchNorm that a pmapped step updates on each device by itself."""

from __future__ import annotations

import ast

from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax.nodes import walk

# What brings the statistics of the devices together, in the module or after the step.
_TOGETHER = regex(
    r"BatchNorm[\s\S]{0,160}axis_name|cross_replica|sync_?(?:batch|bn|model|stat)|SyncBatchNorm"
    r"|(?:pmean|psum|reduce\w*|sync\w*|mean)\([^\n]*(?:stats|state|mutated|mutable|new_vars|updates|variables|extra|aux)"
)
# One device's copy of the state is what is kept.
_FIRST = ("unreplicate", "x[0]", "a[0]", "[0], state", "save_checkpoint")


def kept_apart(site: Site) -> ast.AST | None:
    """Where a pmapped function hands on the batch statistics of its own device, if nothing brings them together."""
    keyword = next((one for one in site.call.keywords if one.arg == "mutable"), None)
    if keyword is None or "batch_stats" not in site.text(keyword.value):
        return None
    functions = [one for one in site.file.ancestors(site.call) if isinstance(one, ast.FunctionDef)]
    if not functions or not _pmapped(site, functions[-1]):
        return None
    files = [site.file, *site.program.together(site.file)]
    if not any(file.says("BatchNorm") for file in files) or any(
        _TOGETHER.search(file.source.text) for file in files if file.says("BatchNorm") or file.says("batch_stats")
    ):
        return None
    if not any(file.says(word) for file in files for word in _FIRST):
        return None
    given = (
        one
        for call in walk(functions[-1])
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        for one in call.keywords
        if one.arg == "batch_stats" and call.func.attr in ("replace", "apply_gradients", "_replace")
    )
    return next((one.value for one in given), keyword)


def _pmapped(site: Site, function: ast.FunctionDef) -> bool:
    """Whether a function is mapped by `pmap`, and by nothing else in sight."""
    region = site.program.region_in_sight(site.file, function.body[0])
    return "pmap" in region.by
