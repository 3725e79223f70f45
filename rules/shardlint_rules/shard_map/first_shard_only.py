"""SL418."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.bound_names import find_binding_reads
from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

# What is one number of all examples, by its name.
_MEASURE = compile_lazily(
    r"(?i)(?:^|_)(?:\w*loss(?:es)?|acc(?:urac(?:y|ies))?|nll|r?mse|mae|err(?:ors?)?|perplexity|metrics?)(?:$|_)"
)
# Names that say that one device, or one of several runs, is meant.
_ONE = compile_lazily(r"(?i)seed|member|replica|agent|device|local|shard|first|chain|particle|example|sample|row")


class FirstShardOnly(Rule):
    """Code reads only the first device's entry of a `pmap` result that differs on each device.

    With eight devices, seven of eight predictions are lost, or a metric covers only an eighth of the batch. Nothing
    raises.

    ## Reports
    - `metric` (likely): `losses[0]` of a loss or metric that no collective in the pmapped function reduces.
    - `dropped` (possible): `unreplicate` or `jax.tree.map(lambda x: x[0], ...)` of a result that no collective in the
      pmapped function reduces.

    ## Write instead
    Write `x.reshape(-1, *x.shape[2:])` for results with one row per example. For a metric write `losses.mean()`, or
    call `jax.lax.pmean` in the function.

    ## Limits
    Not reported: replicated state, and results of code that shardlint cannot read.
    """

    code = "SL418"
    name = "first-shard-only"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("metric",)
    assumptions: ClassVar[Mapping[str, str]] = {"metric": "The figure is meant for the data of all devices."}
    triggers = (Violates("rows.first", is_conditional=False),)
    fixes = "none"

    @detector("violation")
    def report_read(self, site: Site) -> Finding | None:
        """The read of one device's entry."""
        led = site.violation.calls
        if site.violation.said["entries"] != "differ" or (led and led[0].file is not site.file):
            return None  # it is told where the helper of another file is called
        node, line = site.syntax, site.violation.said["line"]
        tree = _unreplicated_tree(site)
        if tree is not None:
            return site.report_violation(
                f"Only the first device's entry of `{site.shown(tree)}` is read; the other devices' results are lost.",
                help="merge the devices (`x.reshape(-1, *x.shape[2:])`), or reduce in the function (`jax.lax.pmean`)",
                form="dropped",
                why=f"no collective reduces the result of line {line}",
            )
        if isinstance(node, ast.Subscript) and _is_measure_of_all(site, node):
            name = site.text(node.value)
            return site.report_violation(
                f"`{name}[0]` is the value of the first device's shard; the other devices' values are lost.",
                help=f"write `{name}.mean()`, or reduce in the function (`jax.lax.pmean`)",
                form="metric",
                why=f"no collective reduces the result of line {line}",
            )
        return None


def _unreplicated_tree(site: Site) -> ast.expr | None:
    """The tree of which `unreplicate(tree)` or `jax.tree.map(lambda x: x[0], tree)` takes the first entries."""
    if isinstance(site.syntax, ast.Call):
        return site.syntax.args[0] if site.syntax.args else None
    for outer in site.file.ancestors(site.syntax):
        if isinstance(outer, ast.Lambda):
            call = site.file.parent(outer)
            return call.args[1] if isinstance(call, ast.Call) and len(call.args) == 2 else None
        if isinstance(outer, ast.stmt):
            break
    return None


def _is_measure_of_all(site: Site, read: ast.Subscript) -> bool:
    """Return whether only the first entry of a value is read, and the value is a global measure by its name."""
    match read.value:
        case ast.Name(id=said) | ast.Attribute(attr=said) | ast.Subscript(slice=ast.Constant(value=str(said))):
            if not _MEASURE.search(said) or any(map(_ONE.search, (said, *_names_of_use(site, read)))):
                return False
        case _:
            return False
    if not isinstance(read.value, ast.Name):
        return True
    bound = (one.node for one in lookup_bindings(site.file, read.value, said)[0])
    uses = [use for node in bound if isinstance(node, ast.Name) for use, _ in find_binding_reads(site.file, node)]
    # Where `losses.mean()` stands beside it, all of them are looked at.
    return all(isinstance(parent := site.file.parent(use), ast.Subscript) and _is_zero(parent.slice) for use in uses)


def _is_zero(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and index.value == 0


def _names_of_use(site: Site, read: ast.Subscript) -> Iterator[str]:
    """The names that tell what is meant: of what the value is bound to, of the text that it is printed in."""
    statement = site.file.statement(read)
    for one in walk_nodes(statement) if isinstance(statement, ast.Assign | ast.Expr) else ():
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            yield one.id
        elif isinstance(one, ast.Constant) and isinstance(statement, ast.Expr):
            yield str(one.value)
