"""SL519."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.reach import lookup
from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk

_STATE, _SPLIT = "flax.nnx.state", "flax.nnx.split"
# What only reads: nothing of the model or its state is another afterwards.
_READING = ("jax.", "numpy.", "builtins.", "logging.", "flax.nnx.get_", "flax.nnx.state", "flax.linen.")


class NnxUpdateOfItself(Rule):
    """An NNX model is updated with its own state, as it is.

    ## What it does
    Reports `nnx.update(model, nnx.state(model))`, and the same with a name or the state that `nnx.split` gave, where
    nothing changes the state or the model in between.

    ## Why it hurts
    It has no effect. It is what is left of the pattern *state, constraint, update* when the constraint is missing, or
    when its result has another name: the weights stay where they were made, often whole on one device.

    ## Use instead
    `nnx.update(model, jax.lax.with_sharding_constraint(state, nnx.get_partition_spec(state)))`, in `nnx.jit` with the
    mesh in context.

    ## Evidence
    Run on flax 0.10.4, 0.11.2, 0.12.0, 0.12.4 and 0.12.12: the weights stay on one device. Left alone: the state of
    another model, a state kept from before something else ran (which brings old values back), and one that was
    written to.
    """

    code = "SL519"
    name = "nnx-update-of-itself"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10"}
    triggers = (Calls("flax.nnx.update", file_says=("state(", "split(")),)
    forms = ("call",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for an update."""
        given = site.call.args
        if len(given) != 2 or site.call.keywords:
            return
        model, state = given
        if not isinstance(model, ast.Name | ast.Attribute) or isinstance(state, ast.Starred):
            return
        taken = _taken_at(site, model, state)
        if taken is None:
            return
        constrained = _left_aside(site, state, taken)
        yield site.finding(
            site.call,
            "the state that it has already",
            f"This has no effect: nothing was done to the state of `{site.text(model)}`.",
            help=f"update it with `{constrained}`"
            if constrained
            else "constrain the state first, or leave it out",
        )


def _taken_at(site: Site, model: ast.expr, state: ast.expr) -> ast.AST | None:
    """Where the state was taken from the same model, if it surely is as it was."""
    if isinstance(state, ast.Call):
        return state if _of(site, state, model) else None
    if not isinstance(state, ast.Name):
        return None
    bindings, owner = lookup(site.file, state, state.id)
    if len(bindings) != 1 or owner is None or owner.function() is not site.scope.function():
        return None
    source = bindings[0].value
    part = 1 if bindings[0].kind == "unpack" else None
    if bindings[0].kind not in ("assign", "unpack") or not isinstance(source, ast.Call):
        return None
    if bindings[0].index != part or not _of(site, source, model, split=part is not None):
        return None
    return source if _untouched(site, source, model, state.id) else None


def _of(site: Site, call: ast.Call, model: ast.expr, split: bool = False) -> bool:
    """Whether a call takes the state of a model: `nnx.state(model)`, or `_, state = nnx.split(model)`."""
    called = options(site.value(call.func))
    if not all(isinstance(one, Api) and one.name == (_SPLIT if split else _STATE) for one in called):
        return False
    return bool(call.args) and site.text(call.args[0]) == site.text(model)


def _untouched(site: Site, source: ast.Call, model: ast.expr, state: str) -> bool:
    """Whether nothing between two calls may change the model or its state."""
    block = site.file.statement(source)
    use: ast.AST = site.file.statement(site.call)
    begin, end = block.end_lineno or 0, site.call.lineno
    while isinstance(around := site.file.parent(use), ast.With) and around is not site.file.parent(block):
        use = around  # `with mesh:` around the update
    if site.file.parent(block) is not site.file.parent(use):
        return False
    scope = site.scope.function() or site.scope
    for statement in site.file.walked(scope).statements:
        if begin < statement.lineno < end and not isinstance(
            statement,
            ast.Assign
            | ast.AnnAssign
            | ast.Expr
            | ast.FunctionDef
            | ast.Assert
            | ast.Return
            | ast.Pass
            | ast.With,
        ):
            return False
        if begin < statement.lineno < end and _writes(site, statement, model, state):
            return False
    return all(_only_reads(site, call) for call in site.file.walked(scope).calls if begin < call.lineno < end)


def _writes(site: Site, statement: ast.stmt, model: ast.expr, state: str) -> bool:
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    else:
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else []
    inside = [part for target in targets for part in walk(target)]
    base = model
    while isinstance(base, ast.Attribute):
        base = base.value
    names = {state, site.text(base)}
    return any(isinstance(part, ast.Name) and part.id in names for part in inside)


def _only_reads(site: Site, call: ast.Call) -> bool:
    called = options(site.value(call.func))
    if all(isinstance(one, Api) and one.name.startswith(_READING) for one in called):
        return True
    last = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return last in ("info", "debug", "warning", "log", "items", "keys", "values", "get", "format", "join")


def _left_aside(site: Site, state: ast.expr, taken: ast.AST) -> str | None:
    """The name that a constraint of the state was bound to, and that the update does not use."""
    scope = site.scope.function()
    if scope is None:
        return None
    for call in site.file.walked(scope).calls:
        parent = site.file.parent(call)
        if "constraint" not in site.text(call.func) or not isinstance(parent, ast.Assign) or not call.args:
            continue
        target = parent.targets[0]
        if isinstance(target, ast.Name) and call.lineno < site.call.lineno:
            return target.id
    return None
