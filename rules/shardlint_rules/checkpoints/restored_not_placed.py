"""SL702."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.placements import placed_by_callers
from shardlint.facts.repeated import is_test
from shardlint.facts.shardings import JITS, PLACING
from shardlint.model.evaluator.trees import MAPS
from shardlint.model.values import Api, Constant, Function, Transformed, options
from shardlint.rules_api.rule import Finding, Harm, Lines, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.checkpoints._derived import find_derived_names, holder_scope, other_creating_assignments

_LOADING = r"(?:load|restore|from_bytes|from_state_dict|read|deserialise_leaves)"
# They give arrays of numpy, whatever they are given.
_HOST = (
    "flax.serialization.from_bytes",
    "flax.serialization.msgpack_restore",
    "numpy.load",
    "pickle.load",
    "pickle.loads",
    "joblib.load",
    "safetensors.numpy.load_file",
    "safetensors.numpy.load",
    "safetensors.flax.load_file",
    "equinox.tree_deserialise_leaves",
)
_HOST_WORDS = (
    "pickle.load",
    "np.load",
    "numpy.load",
    "from_bytes(",
    "msgpack_restore(",
    "load_file(",
    "jnp.load",
)
_PUTTING = ("device_put(", "filter_shard(", "with_sharding_constraint(", "make_array_from_")
_PLACING_WORDS = (
    "put",
    "shard",
    "place",
    "replicate",
    "mesh",
    "make_array",
    "constrain",
    "distribute",
    "device",
)
_DEPTH = 2
_WHY = {
    "partly-sharded": "this sharding shards some of the arrays",
    "unknown-sharding": "shardlint does not know which arrays this sharding shards",
}


class RestoredNotPlaced(Rule):
    """A restored tree stays on the host, although a freshly initialized tree is sharded.

    After a restore the jitted step usually receives the arrays replicated on every device. In a fresh run each device
    has one shard.

    ## Reports
    - proven: `params = pickle.load(file)`, if another branch or an earlier statement shards `params`. Also with numpy,
      safetensors, `flax.serialization`, and project functions that call them.
    - `partly-sharded` (likely): a restored tree, if the other branch shards only some leaves of the tree.
    - `unknown-sharding` (possible): a restored tree, if shardlint does not know the spec on the other branch.
    - `returned` (likely): a `return` of the restored tree, if another `return` of the function returns a sharded tree.
    - `derived` (likely): a variable or attribute assigned from part of the restored tree (`w = ckpt["w"]`). Another
      branch assigns it a sharded array.

    ## Write instead
    Place the tree once, after the branch.

    ## Limits
    Not reported: loader functions whose code contains `device_put`, `shard`, `mesh` or a similar word, and trees that
    are passed to a function with a name such as `shard_params`.
    """

    code = "SL702"
    name = "restored-not-placed"
    harm = Harm.SILENT
    likely = ("returned", "derived", "partly-sharded")
    assumptions: ClassVar[Mapping[str, str]] = {
        "returned": "The caller does not place what the function returns.",
        "derived": "No other code places the attribute or variable.",
        "partly-sharded": "The sharding shards at least one array of the tree.",
    }
    triggers = (
        Lines(
            rf"[\w., ]+=[^=#\n]*{_LOADING}\w*\(",
            file_says=r"shard|device_put",
            saying=("load", "restore", "from_bytes", "from_state_dict", "read", "deserialise_leaves"),
        ),
    )
    fixes = "none"

    @detector("line")
    def find_restored(self, site: Site) -> Iterator[Finding]:
        """The names and attributes of a restored tree that are not placed."""
        statement, scope = site.syntax, site.scope.enclosing_function()
        if scope is None or not isinstance(statement, ast.Assign) or is_test(site.file, statement):
            return
        call, target = _outermost_tree(statement.value), statement.targets[0]
        if not isinstance(call, ast.Call) or not _returns_numpy_arrays(site, call):
            return
        yield from self._derived_names(site, scope, statement)
        if not isinstance(target, ast.Name):
            return
        placed = _later_placement(site, scope, target.id, statement)
        if placed is None and site.wants("returned"):
            yield from self._find_returned(site, scope, statement, target.id)
        if placed is None or _may_be_placed_later(site, scope, target, statement):
            return
        where, splits = placed
        form = (
            ""
            if splits
            else "partly-sharded"
            if site.shardings.may_be_split(site.value(where))
            else "unknown-sharding"
        )
        text = site.shown(where)
        yield site.finding(
            call.func,
            f"`{target.id}` stays on the host after the restore; a jitted function usually receives it replicated.",
            label="never placed",
            help=f"write `{target.id} = jax.device_put({target.id}, {text})` after the restore",
            form=form,
            why="; ".join(
                filter(None, (f"line {where.lineno} places the other value with `{text}`", _WHY.get(form, "")))
            ),
        )

    def _derived_names(self, site: Site, scope: Scope, restored: ast.Assign) -> Iterator[Finding]:
        """Attributes and names that get a part of what was read, where the other way places what it makes for them."""
        if not site.wants("derived"):
            return
        for derived in find_derived_names(site, restored):
            written = site.text(derived.target)
            puts = (
                call
                for statement, call in other_creating_assignments(site, derived, scope)
                if _places_result(site, call)
                and not _may_place_later(site.file, statement, derived.statement)
            )
            where = next(puts, None)
            if where is None or _may_be_placed_later(site, scope, derived.target, derived.statement):
                continue
            text = site.shown(where)
            yield site.finding(
                derived.value,
                f"`{written}` stays on the host after the restore; a jitted function usually receives it replicated.",
                label="never placed",
                help=f"place the array as line {where.lineno} does",
                form="derived",
                why=f"{derived.why}, and line {where.lineno} places the other value of `{written}` with `{text}`",
            )

    def _find_returned(self, site: Site, scope: Scope, statement: ast.Assign, name: str) -> Iterator[Finding]:
        """Yield a finding for each value that one return gives as it was read, and another return gives placed."""
        if _may_be_placed_later(site, scope, statement.targets[0], statement) or placed_by_callers(site):
            return
        parts = [(one, _list_parts(one)) for one in site.file.walk_scope(scope).returns if isinstance(one, ast.Return)]
        for mine, values in parts:
            for index, value in enumerate(values):
                if not isinstance(value, ast.Name) or value.id != name or mine.lineno < statement.lineno:
                    continue
                bound, _ = lookup_bindings(site.file, value, name)
                if [binding.value for binding in bound] != [statement.value]:
                    continue
                for other, others in parts:
                    if (
                        other is not mine
                        and len(others) == len(values)
                        and _places_result(site, others[index])
                    ):
                        text = site.shown(others[index])
                        yield site.finding(
                            value,
                            f"`{name}` is returned as a host array; a jitted function usually receives it replicated.",
                            label="never placed",
                            help=f"place the array as line {other.lineno} does",
                            form="returned",
                            why=f"line {other.lineno} returns `{text}`, which has a sharding",
                        )
                        return


def _outermost_tree(node: ast.expr) -> ast.expr:
    """Return the expression of which another one takes a part: `msgpack_restore(data)["params"]`."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node


def _list_parts(statement: ast.Return) -> list[ast.expr]:
    """Return the results of a function, one by one if it returns a tuple."""
    if isinstance(statement.value, ast.Tuple):
        return statement.value.elts
    return [statement.value] if statement.value is not None else []


def _places_result(site: Site, node: ast.expr) -> bool:
    """Return whether an expression is a call that places its result: of jax, of a jit, or of a function that does
    so.
    """
    if not isinstance(node, ast.Call):
        return False
    if _sharding_given_to_call(site, node) is not None:
        return True
    found = options(site.value(node.func))
    return all(
        isinstance(one, Function)
        and any(word in one.place.file.source_text(one.node) for word in _PUTTING)
        and "Sharding" in one.place.file.source.text
        for one in found
    )


def _returns_numpy_arrays(site: Site, call: ast.Call) -> bool:
    """Return whether a call returns arrays of numpy: a reader, or a function of the project that reads and does not
    place.
    """
    for one in options(site.value(call.func)):
        if isinstance(one, Api):
            if one.name not in _HOST:
                return False
        elif isinstance(one, Function) and not isinstance(one.node, ast.Lambda):
            texts = list(_code_of_called_functions(site, one, 0))
            if any(word in text for text in texts for word in _PLACING_WORDS):
                return False
            if not any(word in text for text in texts for word in _HOST_WORDS):
                return False
        else:
            return False
    return True


def _code_of_called_functions(site: Site, function: Function, depth: int) -> Iterator[str]:
    """The code of a function, and of those of the project that it calls."""
    file = function.place.file
    yield file.source_text(function.node)
    for call in walk_nodes(function.node) if depth < _DEPTH else ():
        if isinstance(call, ast.Call):
            for one in options(site.program.value(file, call.func)):
                if isinstance(one, Function) and one.node is not function.node:
                    yield from _code_of_called_functions(site, one, depth + 1)


def _later_placement(site: Site, scope: Scope, name: str, restored: ast.stmt) -> tuple[ast.expr, bool] | None:
    """With what another statement of the function places a name, and whether that surely splits it."""
    for statement in site.file.walk_scope(scope).statements:
        if not isinstance(statement, ast.Assign) or statement is restored:
            continue
        target = statement.targets[0]
        if not isinstance(target, ast.Name) or target.id != name or not isinstance(statement.value, ast.Call):
            continue
        where = _sharding_given_to_call(site, statement.value)
        if where is not None and not _may_place_later(site.file, statement, restored):
            return where, site.shardings.shards(site.value(where))
    return None


def _sharding_given_to_call(site: Site, call: ast.Call) -> ast.expr | None:
    """Where a call places what it gives."""
    given = {one.arg: one.value for one in call.keywords}
    for one in options(site.value(call.func)):
        if isinstance(one, Api) and one.name in PLACING:
            where = given.get(PLACING[one.name], call.args[1] if len(call.args) > 1 else None)
            return None if where is None or site.value(where) == Constant(None) else where
        if isinstance(one, Api) and one.name in MAPS and call.args and isinstance(call.args[0], ast.Lambda):
            body = call.args[0].body
            return _sharding_given_to_call(site, body) if isinstance(body, ast.Call) else None
        if isinstance(one, Transformed) and one.api.name in JITS and one.call is not None:
            place = one.call.keywords.get("out_shardings")
            if place is not None and place.file is site.file and isinstance(place.node, ast.expr):
                return place.node
    return None


def _runs_jit_with_shardings(site: Site, call: ast.Call) -> bool:
    """Return whether a call runs a jitted function with shardings of its arguments, which places them."""
    return any(
        isinstance(one, Transformed) and one.call is not None and "in_shardings" in one.call.keywords
        for one in options(site.value(call.func))
    )


def _may_place_later(file: FileFacts, statement: ast.stmt, restored: ast.stmt) -> bool:
    """Return whether a statement comes after the restored value, and may place it."""
    if statement.lineno < restored.lineno or file.evaluation_scope(statement) is not file.evaluation_scope(restored):
        return False
    for outer in file.ancestors(restored):
        if isinstance(outer, ast.If | ast.Try) and any(part is statement for part in walk_nodes(outer)):
            return not _are_in_other_branches(outer, statement, restored)
    return True


def _are_in_other_branches(branch: ast.If | ast.Try, one: ast.stmt, two: ast.stmt) -> bool:
    blocks = [branch.body, branch.orelse]
    if isinstance(branch, ast.Try):
        blocks += [handler.body for handler in branch.handlers]
    sides = [
        next(
            (n for n, block in enumerate(blocks) if any(it is part for s in block for part in walk_nodes(s))),
            -1,
        )
        for it in (one, two)
    ]
    return sides[0] != sides[1]


def _may_be_placed_later(site: Site, scope: Scope, target: ast.expr, restored: ast.stmt) -> bool:
    """Return whether a later call may place the name or attribute, by the name of the call or by its other
    arguments.
    """
    file, written = site.file, site.text(target)
    around = holder_scope(scope, target)
    for node in file.mentions_in(around, target.attr if isinstance(target, ast.Attribute) else written):
        if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        elsewhere = around is not scope and file.evaluation_scope(node).enclosing_function() is not scope
        if site.text(node) != written or (not elsewhere and node.lineno <= restored.lineno):
            continue
        for outer in file.ancestors(node):
            if isinstance(outer, ast.stmt):
                break
            if isinstance(outer, ast.Call):
                text = site.text(outer.func if elsewhere else outer).lower()
                if any(word in text for word in _PLACING_WORDS) or _runs_jit_with_shardings(site, outer):
                    if elsewhere or _may_place_later(file, file.statement(outer), restored):
                        return True
    return False
