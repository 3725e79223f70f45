"""SL352."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.mesh.meshes import Spec, SpecEntry
from shardlint.model.values import CallResult, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import names_in, walk

_ROWS = regex(r"(?i)^(dp|data|batch|fsdp|replica|ddp|data_parallel|dp_replicate|dp_shard|dcn)$")
# After these the first dimension need not be that of the batch.
_MOVES = regex(
    r"transpose|swapaxes|moveaxis|rearrange|\.T\b|reshape|ravel|flatten|concatenate|stack|scan|vmap|take|gather|top_k"
    r"|argsort|sort|one_hot|expand_dims|broadcast_to|\[None|psum|all_gather"
)
_NAMED = regex(r"(?i)shard|constrain|constraint|wsc")
_CONSTRAINTS = ("jax.lax.with_sharding_constraint", "jax.reshard", "equinox.filter_shard")
_LEAST = 2


class ConstraintDropsBatch(Rule):
    """One constraint leaves the batch axis out, between others that split by it.

    ## What it does
    Reports `h = with_sharding_constraint(h, P(None, None, "model"))` in a function that constrains what `h` is made of,
    or what is made of it, by `P("data", None, None)`: both have as many entries, and nothing in between moves the
    first dimension.

    ## Why it hurts
    `None` in a constraint does not mean "as it is", it means replicated. The activation is gathered over the batch axis
    there, each device of it computes the whole batch, and the next constraint splits it again: memory and time of a
    layer are those without data parallelism.

    ## Use instead
    Name the batch axis in each constraint (`P("data", None, "model")`), or leave the dimension to the compiler with
    `P.UNCONSTRAINED`.

    ## Evidence
    The proof shows the activation with all rows on every device. Left alone: functions that transpose, reshape, stack
    or gather, specs that use the axis for another dimension, and specs of no axes at all.
    """

    code = "SL352"
    name = "constraint-drops-batch"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("between",)
    triggers = (
        Lines(
            r"(?:return|[\w.\[\]'\"]+\s*=)\s*[\w.]*(?:shard|constrain|wsc)\w*\(",
            saying=("shard", "constrain", "wsc"),
            file_says="NamedSharding|PartitionSpec",
        ),
    )
    forms = ("line",)
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a constraint that splits other dimensions than the first."""
        call = _constraint(site.syntax)
        scope = site.scope.function()
        if call is None or scope is None or not isinstance(scope.node, ast.FunctionDef):
            return
        others = [one for one in site.file.walked(scope).statements if one is not site.syntax and _constraint(one)]
        spec = _spec(site, call) if others else None
        if spec is None or not _drops(spec.entries):
            return
        for statement in others:
            other = _constraint(statement)
            kept = _spec(site, other) if other is not None else None
            if other is None or kept is None or len(kept.entries) != len(spec.entries):
                continue
            axes = kept.entries[0].axes if kept.entries[0].known else ()
            rows = [one for one in axes or () if isinstance(one, str) and _ROWS.match(one)]
            if not rows or any(set(rows) & set(one.axes or ()) for one in spec.entries):
                continue
            if not _joined(site, statement, other, call):
                continue
            yield site.finding(
                call,
                f"the first dimension is split over `{rows[0]}` at line {other.lineno}, and over nothing here",
                f"None in a constraint means replicated: the array is gathered over `{rows[0]}` here, and each device "
                "of it computes the whole batch.",
                help=f'name the axis here too: P("{rows[0]}", ...), or write P.UNCONSTRAINED to leave it as it is',
                form="between",
                why=f"line {other.lineno} constrains what this is made of or goes into by `{rows[0]}`",
            )
            return


def _constraint(statement: ast.AST) -> ast.Call | None:
    """The call of a statement that may be one, by its name."""
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return) else None
    return value if isinstance(value, ast.Call) and value.args and _NAMED.search(last_name(value.func)) else None


def _spec(site: Site, call: ast.Call) -> Spec | None:
    """The spec of a constraint, also of one in a helper."""
    found = options(site.value(call))
    one = found[0] if len(found) == 1 else None
    if not isinstance(one, CallResult) or one.api not in _CONSTRAINTS:
        return None
    target = site.shardings.target(one)
    named = site.shardings.named(target)
    spec = named[1] if named is not None else site.spec_of(target)
    return spec if spec is not None and not spec.open and len(spec.entries) >= _LEAST else None


def _drops(entries: tuple[SpecEntry, ...]) -> bool:
    """Whether a spec replicates the first dimension and splits a later one."""
    first, *rest = entries
    whole = first.known and not first.axes and not first.unconstrained
    return whole and any(one.axes for one in rest)


def _joined(site: Site, statement: ast.stmt, other: ast.Call, call: ast.Call) -> bool:
    """Whether what one constrains is made of what the other does, and the first dimension stays in between."""
    here = site.file.statement(call)
    first, last = (statement, here) if statement.lineno < here.lineno else (here, statement)
    made = _targets(first)
    scope = site.scope.function()
    between = [
        one
        for one in (site.file.walked(scope).statements if scope is not None else ())
        if first.lineno < one.lineno <= last.lineno
        and isinstance(one, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return)
    ]
    if any(_MOVES.search(site.file.text(one)) or _turns(one) for one in between):
        return False
    for one in between:
        if made and one is not last and one.value is not None and made & names_in(one.value):
            made |= _targets(one)
    taken = (other if last is statement else call).args[0]
    return bool(made & names_in(taken))


def _targets(statement: ast.AST) -> set[str]:
    found = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return {one.id for one in found if isinstance(one, ast.Name)}


def _turns(statement: ast.stmt) -> bool:
    """Whether an einsum of a statement puts another dimension first than its first operand has."""
    for node in walk(statement):
        if isinstance(node, ast.Call) and last_name(node.func) == "einsum":
            text = node.args[0] if node.args else None
            said = text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""
            inputs, arrow, output = said.replace(" ", "").partition("->")
            if not arrow or not output or inputs[:1] != output[:1]:
                return True
    return False

