"""Running statistics of BatchNorm that a pmapped step updates on each device by itself: of linen, and of Haiku."""

from __future__ import annotations

import ast

from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk

# What brings the statistics of the devices together, in the module or after the step.
_TOGETHER = regex(
    r"BatchNorm[(,](?:[^()]|\([^()]*\)){0,300}?axis_name|cross_replica|sync_?(?:batch|bn|model|stat)|SyncBatchNorm"
)
_REDUCER = regex(r"mean|psum|reduce|sync|merge|average")
_REDUCED_INSIDE = regex(r"\b(?:pmean|psum|reduce\w*|sync\w*|mean)\b(?![\"'])")
_STATISTICS = regex(r"stats|state|mutated|mutable|new_vars|updates|variables|extra|aux")
_SYNCED = regex(r"cross_replica|across_replica|(?:sync|average|merge|reduce)\w*(?:batch|bn|model|stat|net)")
_AVERAGED = regex(r"(?:pmean|psum)\([^\n]*")
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
    concerned = [file for file in files if file.says("BatchNorm") or file.says("batch_stats")]
    if not any(file.says("BatchNorm") for file in files) or any(map(_brings_together, concerned)):
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


def _brings_together(file: FileFacts) -> bool:
    """Whether BatchNorm itself, or a reduction whose arguments name the statistics, goes over the devices."""
    if _TOGETHER.search(file.source.text):
        return True
    return any(
        isinstance(call, ast.Call)
        and _STATISTICS.search(given := " ".join(map(file.text, call.args)))
        and (_REDUCER.search(last_name(call.func)) or _REDUCED_INSIDE.search(given))
        for call in walk(file.tree)
    )


def state_kept_apart(site: Site) -> ast.AST | None:
    """Where a pmapped function takes the state that a Haiku network gives back, if nothing brings it together.

    `(out), state = forward.apply(params, state, x)`; the gradients are averaged, so the program means one model.
    """
    state = _given_back(site)
    functions = [one for one in site.file.ancestors(site.syntax) if isinstance(one, ast.FunctionDef)]
    if state is None or not functions or not _pmapped(site, functions[-1]):
        return None
    files = [site.file, *site.program.together(site.file)]
    normalising = [file for file in files if file.says("BatchNorm")]
    if not normalising or any(_SYNCED.search(file.source.text) for file in (site.file, *normalising)):
        return None
    text = site.file.source.text
    averages = [one.group(0) for one in _AVERAGED.finditer(text)]
    if not averages or any(state.id in one or "state" in one or "bn" in one for one in averages):
        return None
    return state if any(site.file.says(word) for word in _FIRST) else None


def _given_back(site: Site) -> ast.Name | None:
    """The name that the second of two results is bound to, where the call is given a state in the same place."""
    call = site.syntax
    statement = site.file.parent(call)
    if not isinstance(call, ast.Call) or not isinstance(statement, ast.Assign) or len(call.args) < 3:
        return None
    match statement.targets:
        case [ast.Tuple(elts=[_, ast.Name() as state])]:
            given = last_name(call.args[1])
            linen = any(one.arg == "mutable" for one in call.keywords)
            return state if not linen and ("state" in given or given == state.id) else None
    return None


def _pmapped(site: Site, function: ast.FunctionDef) -> bool:
    """Whether a function is mapped by `pmap`, and by nothing else in sight."""
    region = site.program.region_in_sight(site.file, function.body[0])
    return "pmap" in region.by
