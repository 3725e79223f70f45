"""Running statistics of BatchNorm that a pmapped step updates on each device by itself: of linen, and of Haiku."""

from __future__ import annotations

import ast

from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk_nodes

# What brings the statistics of the devices together, in the module or after the step.
_TOGETHER = compile_lazily(
    r"BatchNorm[(,](?:[^()]|\([^()]*\)){0,300}?axis_name|cross_replica|across_replica|SyncBatchNorm"
    r"|(?:sync|average|merge|reduce)\w*(?:batch|bn|model|stat|net)"
)
_AVERAGED = compile_lazily(r"(?:pmean|psum)\([^\n]*")
_STATISTICS = compile_lazily(r"stat|bn|mutated|mutable|new_vars|variables")
# One device's copy of the state is what is kept.
_FIRST = ("unreplicate", "x[0]", "a[0]", "[0], state", "save_checkpoint")


def find_unsynced_statistics(site: Site) -> ast.AST | None:
    """Where a pmapped function takes the statistics of its own device, if nothing brings them together.

    The gradients are averaged, so the program means one model.
    """
    functions = [one for one in site.file.ancestors(site.syntax) if isinstance(one, ast.FunctionDef)]
    taken = _statistics_update_place(site, functions[-1]) if functions else None
    if taken is None or "pmap" not in site.program.region_in_sight(site.file, functions[-1].body[0]).by:
        return None
    files = [site.file, *site.program.together(site.file)]
    concerned = [
        file
        for file in files
        if file is site.file or file.contains_text("BatchNorm") or file.contains_text("batch_stats")
    ]
    if not any(file.contains_text("BatchNorm") for file in files):
        return None
    if any(_TOGETHER.search(file.source.text) for file in concerned):
        return None
    averages = [one.group(0) for one in _AVERAGED.finditer(site.file.source.text)]
    if not averages or any(site.text(taken) in one or _STATISTICS.search(one) for one in averages):
        return None
    return taken if any(file.contains_text(word) for file in files for word in _FIRST) else None


def _statistics_update_place(site: Site, step: ast.FunctionDef) -> ast.AST | None:
    """Return the place where a step takes the new statistics: `state.replace(batch_stats=new)`, or `out, state =
    net.apply(params, state, x)`.
    """
    mutable = site.keyword("mutable")
    if mutable is not None:
        updated = (
            one.value
            for node in walk_nodes(step)
            if isinstance(node, ast.Call) and last_name(node.func) in ("replace", "apply_gradients", "_replace")
            for one in node.keywords
            if one.arg == "batch_stats"
        )
        return next(updated, mutable) if "batch_stats" in site.text(mutable.value) else None
    match site.file.parent(site.call):
        case ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name() as state])]) if len(site.call.args) > 2:
            given = last_name(site.call.args[1])
            return state if "state" in given or given == state.id else None
    return None
