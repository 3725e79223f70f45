"""SL703."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.origins import value_origins
from shardlint.facts.repeated import is_test
from shardlint.model.values import (
    CallResult,
    Constant,
    Function,
    Items,
    Place,
    Table,
    Transformed,
    Value,
    options,
)
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk_nodes

_ABSTRACT = ("jax.eval_shape", "equinox.filter_eval_shape")
_STRUCT = "jax.ShapeDtypeStruct"
_MAPS = ("jax.tree.map", "jax.tree.map_with_path")
_STANDARD = ("orbax.checkpoint.StandardCheckpointer", "orbax.checkpoint.StandardCheckpointHandler")
_WITH_HANDLER = ("orbax.checkpoint.Checkpointer", "orbax.checkpoint.AsyncCheckpointer")
_PLACES = compile_lazily(r"(?i)device_put|shard|place|replicate|make_array|constrain|distribute")
# A program that says these spreads its state over a mesh.
_SPREADS = ("out_shardings", "device_put", "filter_shard", "in_shardings")
_DEPTH = 5
_Spot = tuple[str, int, int]


class TargetWithoutShardings(Rule):
    """A restore target from `eval_shape` has no shardings: orbax restores onto the saved mesh or one device.

    If this program uses another mesh, its first step moves or replicates all weights. If it has other devices, the
    restore raises.

    ## Reports
    - `restored` (likely): `jax.eval_shape(init, key)`, or a `tree.map` to `jax.ShapeDtypeStruct` without `sharding=`,
      as the target of `StandardRestore` or `StandardCheckpointer().restore`, if the program shards its state. Also
      code near a restore that reads `.sharding` of such leaves, which is None.

    ## Write instead
    Write `jax.tree.map(lambda s, sh: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=sh), shapes, shardings)`, where
    `shapes` is the result of `jax.eval_shape`, and `shardings` a tree with the sharding of each leaf.

    ## Limits
    Not reported: trees that are placed after the restore, and trees that another function of the project changes.
    """

    code = "SL703"
    name = "target-without-shardings"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("restored",)
    assumptions: ClassVar[Mapping[str, str]] = {"restored": "No other code adds shardings to the target."}
    triggers = (Calls(*_ABSTRACT, _STRUCT),)
    project = "orbax"
    in_tests = False
    fixes = "none"

    @detector("call", finds="restored")
    def report_target(self, site: Site) -> Finding | None:
        """The call that makes the target of a restore."""
        if not site.is_named_anywhere("NamedSharding") or not any(map(site.is_named_anywhere, _SPREADS)):
            return None
        if is_test(site.file, site.call):
            return None
        spots = site.program.once(site.file, "SL703", lambda: dict(_restored_targets(site)))
        spot = str(site.file.path), site.call.lineno, site.call.col_offset
        if spot not in spots:
            return None
        return site.finding(
            site.call,
            f"The restore at {spots[spot]} ignores this program's mesh: its target has no shardings.",
            label="no shardings",
            help="write `jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=sharding)` for each leaf s, with its sharding",
            why="orbax uses the saved sharding for a target leaf without one; the program shards its state and places "
            "nothing after the restore",
        )


def _restored_targets(site: Site) -> Iterator[tuple[_Spot, str]]:
    """Where the trees without shardings are made that targets of a restore are, and where they are restored."""
    for file in site.program.project.files_with_attribute(site.file, "restore"):
        if file is None:
            return
        if not (file.contains_text("orbax") or file.contains_text("ocp")):
            continue
        for target in _find_targets(site, file):
            for place in _calls_making_tree(site, Place(file, target), 0):
                if isinstance(place.node, ast.Call):
                    spot = str(place.file.path), place.node.lineno, place.node.col_offset
                    yield spot, f"{file.path.name}:{target.lineno}"


def _find_targets(site: Site, file: FileFacts) -> Iterator[ast.expr]:
    """The targets that restores in a file are given, and the trees whose leaves are asked for their sharding."""
    for mention in file.find_mentions("restore"):
        call = file.parent(mention)
        if isinstance(mention, ast.Attribute) and isinstance(call, ast.Call) and call.func is mention:
            if _is_result_placed(site, file, call):
                continue
            given = _standard_restore_target(file, call) or _target_of_checkpointer(site, file, mention, call)
            if given is not None:
                yield given
            yield from _trees_mapped_by_sharding(site, file, call)


def _standard_restore_target(file: FileFacts, call: ast.Call) -> ast.expr | None:
    """The target in `args=ocp.args.StandardRestore(target)`, also among several items."""
    for one in walk_nodes(call):
        if isinstance(one, ast.Call) and last_name(one.func) == "StandardRestore":
            named = {keyword.arg: keyword.value for keyword in one.keywords}
            return named.get("item", one.args[0] if one.args else None)
    return None


def _target_of_checkpointer(site: Site, file: FileFacts, func: ast.Attribute, call: ast.Call) -> ast.expr | None:
    """The target in `StandardCheckpointer().restore(path, target)`."""
    if not all(_reads_shardings(site, one) for one in options(site.program.value(file, func.value))):
        return None
    named = {one.arg: one.value for one in call.keywords}
    return named.get("target", named.get("item", call.args[1] if len(call.args) > 1 else None))


def _reads_shardings(site: Site, value: Value) -> bool:
    if not isinstance(value, CallResult) or value.call is None:
        return False
    if value.api in _STANDARD:
        return True
    if value.api not in _WITH_HANDLER or not value.call.positional:
        return False
    inner = site.program.evaluator.value(value.call.positional[0], value.call.environment)
    return all(isinstance(one, CallResult) and one.api in _STANDARD for one in options(inner))


def _trees_mapped_by_sharding(site: Site, file: FileFacts, call: ast.Call) -> Iterator[ast.expr]:
    """The trees of the function around a restore over which a lambda is mapped that reads `.sharding` of a leaf."""
    scope = file.evaluation_scope(call).enclosing_function()
    if scope is None:
        return
    for one in file.walk_scope(scope).calls:
        if last_name(one.func) not in ("map", "tree_map") or len(one.args) < 2:
            continue
        function = one.args[0]
        if not isinstance(function, ast.Lambda) or not function.args.args:
            continue
        leaf = function.args.args[0].arg
        for read in walk_nodes(function.body):
            match read:
                case ast.Attribute(attr="sharding", value=ast.Name(id=name)) if name == leaf:
                    yield one.args[1]
                    break


def _is_result_placed(site: Site, file: FileFacts, call: ast.expr, depth: int = 0) -> bool:
    """Return whether the result of a call is placed: around the call, by its name, or in the callers it is returned
    to.
    """
    scope = file.evaluation_scope(call).enclosing_function()
    if scope is None:
        return True
    around = [one for one in file.ancestors(call) if isinstance(one, ast.Call)]
    if any(_PLACES.search(file.source_text(one.func)) for one in around):
        return True
    statement = file.statement(call)
    names: set[str] = set()
    if isinstance(statement, ast.Assign):
        names = {one.id for part in statement.targets for one in walk_nodes(part) if isinstance(one, ast.Name)}
        for later in file.walk_scope(scope).calls:
            if later.lineno > statement.lineno and _PLACES.search(file.source_text(later)):
                given = [*later.args, *(one.value for one in later.keywords)]
                mapped = _PLACES.search(" ".join(file.source_text(one) for one in (later.func, *given[:1])))
                if mapped and any(isinstance(one, ast.Name) and one.id in names for one in given):
                    return True
    returns = [one for one in file.walk_scope(scope).returns if isinstance(one, ast.Return)]
    back = [one for one in returns if one is statement or any(name in file.source_text(one) for name in names)]
    if not back or not isinstance(scope.node, ast.FunctionDef) or depth > _DEPTH:
        return False
    ends = site.program.flow.in_sight(file, scope.node).found
    calls = [one.place for one in ends if one.kind == "called" and isinstance(one.place.node, ast.Call)]
    return any(
        isinstance(one.node, ast.Call) and _is_result_placed(site, one.file, one.node, depth + 1)
        for one in calls
    )


def _calls_making_tree(site: Site, place: Place, depth: int) -> Iterator[Place]:
    """The calls that make a tree that is given, or a part of one, whose leaves have no shardings."""
    for value in value_origins(site.program, place):
        yield from _unsharded_structs_in_value(site, value, depth)


def _unsharded_structs_in_value(site: Site, value: Value, depth: int) -> Iterator[Place]:
    if depth > _DEPTH:
        return
    for one in options(value):
        if isinstance(one, Items):
            for item in one.items:
                yield from _unsharded_structs_in_value(site, item, depth + 1)
        elif isinstance(one, Table):
            for _, item in one.entries:
                yield from _unsharded_structs_in_value(site, item, depth + 1)
        elif isinstance(one, CallResult) and one.call is not None:
            if one.api in _ABSTRACT and not _is_jitted_maker(site, one):
                yield one.call.place
            elif one.api in _MAPS and len(one.call.positional) >= 2:
                function = options(site.program.evaluator.value(one.call.positional[0], one.call.environment))
                yield from _mapped_structs(site, one, function[0], depth)


def _is_jitted_maker(site: Site, call_result: CallResult) -> bool:
    """Return whether the function is a jit, which may give the shardings of its results."""
    assert call_result.call is not None
    if not call_result.call.positional:
        return True
    inner = options(site.program.evaluator.value(call_result.call.positional[0], call_result.call.environment))
    return any(isinstance(one, Transformed) and one.api.name != "functools.partial" for one in inner)


def _mapped_structs(site: Site, call_result: CallResult, function: Value, depth: int) -> Iterator[Place]:
    """Yield the structs without a sharding that a function mapped over one tree makes of its leaves, or passes
    through.
    """
    assert call_result.call is not None
    if getattr(function, "name", "").endswith("to_shape_dtype_struct"):
        yield from _calls_making_tree(site, call_result.call.positional[1], depth + 1)
    if not isinstance(function, Function) or len(call_result.call.positional) > 2:
        return
    body = function.node.body
    if isinstance(body, list):
        last = body[-1]
        result = last.value if isinstance(last, ast.Return) else None
    else:
        result = body
    if not isinstance(result, ast.Call) or last_name(result.func) != "ShapeDtypeStruct":
        return
    given = next((one.value for one in result.keywords if one.arg == "sharding"), None)
    if not any(one.arg is None for one in result.keywords) and (
        given is None or site.program.value(function.place.file, given) == Constant(None)
    ):
        yield Place(function.place.file, result)
