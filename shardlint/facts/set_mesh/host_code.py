"""Does a `with` block run on the host, outside traced code, where alone jax.set_mesh may be called?

What the program proves comes first. Where some callers are out of sight, evidence decides: a test runner calls it, the
callers that are seen are host code, it makes the mesh itself, or it does what makes no sense in traced code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from shardlint.facts.location import Location
from shardlint.facts.set_mesh.calls_in_block import BlockCalls
from shardlint.model.mesh.meshes import MESH_MAKERS
from shardlint.model.values import Api, CallResult, Place, Transformed, options
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.bindings import lookup_bindings

_JITS = ("jit", "pjit", "filter_jit")
_PREPARE = (
    "setUp",
    "setUpClass",
    "setUpModule",
    "setup_method",
    "setup_class",
    "tearDown",
    "teardown_method",
)
# Functions that a command line, a cluster or a test runner calls by these names or under these decorators.
_MAINS = ("main", "_main", "app_main", "cli")
_RUN_BY = ("fixture", "click.", "typer", "hydra", ".remote", "ray.", "app.command", "benchmark")
# What waits for, places or counts what is there: in traced code it raises, or is done once and forgotten.
_HOST_APIS = frozenset({
    "jax.devices", "jax.local_devices", "jax.block_until_ready", "jax.device_get", "jax.make_array_from_callback",
    "jax.make_array_from_process_local_data", "jax.make_array_from_single_device_arrays", "jax.live_arrays",
    "jax.experimental.mesh_utils.create_device_mesh", "jax.experimental.mesh_utils.create_hybrid_device_mesh",
    "builtins.open", "builtins.input", "os.makedirs", "gc.collect",
})  # fmt: skip
_HOST_LIBRARIES = (
    "jax.distributed.", "jax.profiler.", "jax.experimental.multihost_utils.", "flax.training.checkpoints.", "orbax.",
    "time.", "tensorflow.", "torch.", "datasets.", "grain.", "wandb.", "tqdm.", "pickle.", "json.", "safetensors.",
    "huggingface_hub.", "transformers.", "tensorboardX.", "subprocess.", "shutil.", "argparse.", "numpy.save",
    "numpy.load", "absl.app.",
)  # fmt: skip
_HOST_METHODS = frozenset({
    "block_until_ready", "restore", "from_pretrained", "save_pretrained", "wait_until_finished", "write_text",
    "read_text", "add_scalar", "mkdir",
})  # fmt: skip
_DEPTH = 4
_CALLERS = 12


def is_run_on_host(location: Location, node: ast.With | ast.AsyncWith, run: BlockCalls) -> bool:
    """Return whether a block runs untraced: for certain, or by evidence and with no visible trace of it."""
    if runs_on_the_host(location, node, run.calls):
        return True
    scope = location.file.evaluation_scope(node).enclosing_function()
    unknown = location.program.region(location.file, node).traced == "unknown"
    return unknown and scope is not None and _makes_the_mesh(location, node, scope)


def runs_on_the_host(location: Location, node: ast.AST, also: Iterable[Place] = ()) -> bool:
    """Return whether a place runs untraced, for certain or by evidence: by the callers of its function, or by its
    calls.

    `also` are calls that are made there through other functions.
    """
    traced = location.program.region(location.file, node).traced
    if traced != "unknown":
        return traced == "never"
    scope = location.file.evaluation_scope(node).enclosing_function()
    if scope is None or _host_function(location, location.file, scope, 0):
        return True
    inner = [Place(location.file, call) for one in location.file.inner_scopes(scope) for call in one.calls]
    if any(_is_jit_call(location, place) for place in dict.fromkeys((*inner, *also))):
        return True
    return _does_host_work(location, (*_calls_of_function(location.file, scope), *also))


def _calls_of_function(file: FileFacts, scope: Scope) -> Iterator[Place]:
    """The calls of a function, not those of functions in it."""
    return (Place(file, call) for call in file.walk_scope(scope).calls)


# by who calls it


def _host_function(location: Location, file: FileFacts, scope: Scope, depth: int) -> bool:
    """Return whether a function is host code by its name, or by its visible callers."""
    node = scope.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    traced = location.program.region(file, node.body[0]).traced
    if traced != "unknown":
        return traced == "never"
    if _is_test_code(file, node) or _is_entry_point(file, node):
        return True
    if depth >= _DEPTH:
        return False
    called: list[Place] = []
    for end in location.program.flow.ends(file, node).found:
        if end.kind == "wrapped" or end.is_staged:
            return False
        if end.kind == "called":
            called.append(end.place)
    outer = [(place.file, place.file.evaluation_scope(place.node).enclosing_function()) for place in called[:_CALLERS]]
    return bool(outer) and all(one is None or _host_function(location, at, one, depth + 1) for at, one in outer)


def _is_test_code(file: FileFacts, definition: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether it is a test or prepares one: functions that a test runner calls, which traces nothing."""
    stem = file.path.stem
    if not (stem.startswith("test_") or stem.endswith(("_test", "_tests")) or stem == "conftest"):
        return False
    if any("fixture" in file.source_text(decorator) for decorator in definition.decorator_list):
        return True
    outer = file.parent(definition)
    return isinstance(outer, ast.Module | ast.ClassDef) and (
        definition.name.startswith("test") or definition.name in _PREPARE
    )


def _is_entry_point(file: FileFacts, definition: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether the function is run by a script or a command."""
    if any(word in file.source_text(decorator) for decorator in definition.decorator_list for word in _RUN_BY):
        return True
    return isinstance(file.parent(definition), ast.Module) and definition.name in _MAINS


# by what it does


def _is_jit_call(location: Location, place: Place) -> bool:
    call = place.node
    assert isinstance(call, ast.Call)
    values = (location.program.value(place.file, call.func), location.program.value(place.file, call))
    for option in (one for value in values for one in options(value)):
        if isinstance(option, Transformed):
            inner = option.inner.name if isinstance(option.inner, Api) else ""  # a partial of jax.jit
            if any(name.rpartition(".")[2] in _JITS for name in (inner, option.api.name)):
                return True
    return False


def _makes_the_mesh(location: Location, node: ast.With | ast.AsyncWith, scope: Scope) -> bool:
    """Return whether the function itself, or one that it calls, makes the mesh that the block enters."""
    for item in node.items:
        expression: ast.expr = item.context_expr
        if isinstance(expression, ast.Name):
            bindings, home = lookup_bindings(location.file, expression, expression.id)
            if home is not scope or any(binding.kind == "param" for binding in bindings):
                continue
        elif not isinstance(expression, ast.Call):
            continue
        found = options(location.value(expression))
        if any(isinstance(one, CallResult) and one.api in MESH_MAKERS for one in found):
            return True
    return False


def _does_host_work(location: Location, calls: Iterable[Place]) -> bool:
    return any(_is_host_work(location, place) for place in calls)


def _is_host_work(location: Location, place: Place) -> bool:
    call = place.node
    assert isinstance(call, ast.Call)
    if isinstance(call.func, ast.Attribute):
        compiles = call.func.attr == "compile" and not call.args  # `step.lower(x).compile()`
        if compiles or call.func.attr in _HOST_METHODS:
            return True
    found = options(location.program.value(place.file, call.func))
    return bool(found) and all(
        isinstance(one, Api) and (one.name in _HOST_APIS or one.name.startswith(_HOST_LIBRARIES))
        for one in found
    )
