"""SL232."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.mesh.meshes import leaves
from shardlint.model.reach import lookup
from shardlint.model.signatures import JITS
from shardlint.model.values import Value, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.jit._state_whole import put_whole

_STATE = regex(
    r"(?i)(^|_)(opt|optim|optimizer)_?(state|states)$|(^|_)(mu|nu|ema|ema_params|momentum|moments)$"
)


class OptimizerStateReplicated(Rule):
    """Every leaf of the optimizer's state gets `P()` beside parameters that are split.

    ## What it does
    Reports `jax.tree.map(lambda _: P(), opt_state)`, or a replicated NamedSharding for each leaf, where the result
    stands beside the specs of the parameters in one tree and those name an axis. Likely: the whole state put so,
    `jax.jit(tx.init, out_shardings=replicated)(params)` or `jax.device_put(tx.init(params), replicated)`, where the
    parameters are placed by a sharding that splits them.

    ## Why it hurts
    The moments of an optimizer are as large as the parameters: Adam keeps two of each. Whole on every device they
    take more memory than the split parameters save, and each step gathers the gradients.

    ## Use instead
    `optax.tree_map_params(tx, lambda _, spec: spec, opt_state, param_specs, transform_non_params=lambda _: P())`.

    ## Evidence
    The proof shows the moments whole on eight devices. Left alone: functions that look at the leaf, and parameters
    that are replicated too or of which the specs are not told.
    """

    code = "SL232"
    name = "optimizer-state-replicated"
    harm = Harm.COST
    likely = ("whole",)
    triggers = (
        Calls("jax.tree.map", file_says=("opt", "ema", "momentum", "mu", "nu")),
        Calls(*JITS, "jax.device_put", file_says=(".init",)),
    )
    forms = ("call",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a tree of specs, or for a state."""
        if site.api != "jax.tree.map":
            yield from self._whole(site)
            return
        given = site.call.args
        if len(given) < 2 or not _is_state(given[1]):
            return
        function = given[0]
        if not isinstance(function, ast.Lambda) or not _replicates(site, function):
            return
        beside = _beside(site)
        if beside is not None:
            yield site.finding(
                site.call,
                "whole on every device",
                f"`{' '.join(site.text(beside).split())}` names axes for the parameters; the moments of the "
                "optimizer, which are as large, stay whole on every device.",
                help="give each moment the spec of its parameter: optax.tree_map_params",
            )

    def _whole(self, site: Site) -> Iterator[Finding]:
        found = put_whole(site) if site.wants("whole") else None
        if found is None:
            return
        sharding, params = found
        values = options(site.value(sharding))
        if not values or not all(_axes(site, one) is False for one in values):
            return
        name = site.shown(params)
        yield site.finding(
            sharding,
            "whole on every device",
            f"`{name}` is split over the devices; the moments of the optimizer, which are as large, stay whole on "
            "every device.",
            help="give each moment the sharding of its parameter: optax.tree_map_params, or optimizer.init without jit",
            certainty=Certainty.POSSIBLE,
            form="whole",
            why=f"`{name}` is placed by a sharding that may split it",
        )


def _is_state(node: ast.expr) -> bool:
    return bool(_STATE.search(last_name(node))) or (isinstance(node, ast.Call) and last_name(node.func) == "init")


def _replicates(site: Site, function: ast.Lambda) -> bool:
    """Whether a function gives the same spec without an axis for every leaf."""
    names = {one.arg for one in function.args.args}
    if any(isinstance(one, ast.Name) and one.id in names for one in walk(function.body)):
        return False
    found = options(site.value(function.body))
    return bool(found) and all(_axes(site, one) is False for one in found)


def _axes(site: Site, value: Value) -> bool | None:
    """Whether a spec, or the spec of a sharding, names an axis; None where it is none or not told."""
    parts = site.sharding_parts(value)
    spec = site.spec_of(parts[1] if parts is not None else value)
    if spec is None:
        return None
    if any(entry.axes for entry in spec.entries):
        return True
    return None if spec.open else False


def _beside(site: Site) -> ast.expr | None:
    """The specs of the parameters in the tree that the result becomes a part of, if they name an axis."""
    for use in _uses(site):
        parent = site.file.parent(use)
        outer = site.file.parent(parent) if isinstance(parent, ast.keyword) else parent
        if isinstance(outer, ast.Call):
            named = [(one.arg or "", one.value) for one in outer.keywords]
            named += [(last_name(one), one) for one in outer.args]
        elif isinstance(outer, ast.Dict):
            keys = [one.value if isinstance(one, ast.Constant) else "" for one in outer.keys]
            named = [(str(key), value) for key, value in zip(keys, outer.values, strict=True)]
        elif isinstance(outer, ast.Tuple | ast.List):
            named = [(last_name(one), one) for one in outer.elts]
        else:
            continue
        for name, value in named:
            if value is not use and re.search("(?i)param|weight|model", name) and _splits(site, value):
                return value
    return None


def _splits(site: Site, node: ast.expr) -> bool:
    found = leaves(site.program.evaluator.trees.expanded(site.value(node)))
    return any(_axes(site, option) is True for leaf in found for option in options(leaf))


def _uses(site: Site) -> list[ast.AST]:
    """The call itself, and the reads of the name that it is bound to."""
    statement = site.file.parent(site.call)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return [site.call]
    name = statement.targets[0]
    found: list[ast.AST] = []
    for use in site.file.mentions(name.id):
        if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load):
            bindings, _ = lookup(site.file, use, name.id)
            if any(binding.node is name for binding in bindings):
                found.append(use)
    return found
