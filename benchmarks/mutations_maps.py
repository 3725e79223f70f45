"""Mistakes of `shard_map`, `pmap`, collectives, keys and processes, put into code that is right."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import pairwise

from mutated import SPECS, Change, Operator, Text, calls_of, full_name, remove_call_keyword, swap_expressions

_ZERO = ("process_index() == 0", "host_id() == 0", "process_id() == 0", "is_coordinator()", "is_main_process")
_WRITES = ("save", "write", "wandb.init", "open(", "makedirs", "SummaryWriter", "dump")
_LOGS = ("metric", "loss", "info", "stats", "aux", "scalar", "summar", "log", "acc")


def _call_assignments(text: Text) -> Iterator[tuple[ast.Assign, str, ast.Call]]:
    for node in text.nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Call):
            yield node, text.node_text(node.targets[0]), node.value


def _strip_blanks(written: str) -> str:
    return "".join(written.split()).strip("()").rstrip(",")


def _self_assignments(text: Text, *names: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield `x` and the call of each `x = f(x, ...)`."""
    for _, target, call in _call_assignments(text):
        if (
            full_name(call.func) in names
            and call.args
            and _strip_blanks(text.node_text(call.args[0])) == _strip_blanks(target)
        ):
            yield target, call


def _remove_gradient_mean(text: Text) -> Iterator[Change]:
    """`grads = jax.lax.pmean(grads, axis)` becomes `grads = grads`."""
    for target, call in _self_assignments(text, "pmean", "psum"):
        if "grad" in target.lower():
            yield call.lineno, *text.node_span(call), text.node_text(call.args[0])


def _remove_metrics_mean(text: Text) -> Iterator[Change]:
    """`metrics = jax.lax.pmean(metrics, axis)` becomes `metrics = metrics`."""
    for target, call in _self_assignments(text, "pmean", "psum"):
        if "grad" not in target.lower() and any(word in target.lower() for word in _LOGS):
            yield call.lineno, *text.node_span(call), text.node_text(call.args[0])


def _remove_inner_collective(what: str) -> Callable[[Text], Iterator[Change]]:
    """`jax.lax.psum(x, axis)` becomes `x` where more is made of it."""

    def find_changes(text: Text) -> Iterator[Change]:
        known = {id(call) for _, call in _self_assignments(text, what)}
        for call in calls_of(text, what):
            given = len(call.args) + len(call.keywords) > 1 and call.args
            if given and id(call) not in known and not isinstance(call.args[0], ast.Constant | ast.Starred):
                yield call.lineno, *text.node_span(call), f"({text.node_text(call.args[0])})"

    return find_changes


def _replace_function_name(
    old: str, new: str, reads: Callable[[str], bool] = lambda _: True
) -> Callable[[Text], Iterator[Change]]:
    """A function is called where another is meant."""

    def find_changes(text: Text) -> Iterator[Change]:
        for call in calls_of(text, old):
            if reads(text.node_text(call)):
                end = text.node_span(call.func)[1]
                yield call.lineno, end - len(old), end, new

    return find_changes


def _remove_key_fold_in(word: str) -> Callable[[Text], Iterator[Change]]:
    """`jax.random.fold_in(key, jax.lax.axis_index(axis))` becomes `key`."""

    def find_changes(text: Text) -> Iterator[Change]:
        for call in calls_of(text, "fold_in"):
            if len(call.args) == 2 and word in text.node_text(call.args[1]):
                yield call.lineno, *text.node_span(call), text.node_text(call.args[0])

    return find_changes


def _remove_process_from_seed(text: Text) -> Iterator[Change]:
    """`seed + jax.process_index()` becomes `seed`."""
    for node in text.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            for side, other in ((node.left, node.right), (node.right, node.left)):
                if "process_index()" in text.node_text(side) and "seed" in text.node_text(other):
                    yield node.lineno, *text.node_span(node), text.node_text(other)


def _replicate_split_key(text: Text) -> Iterator[Change]:
    """`jax.random.split(key, jax.local_device_count())` becomes `jax_utils.replicate(key)`, or a stack of copies."""
    for call in calls_of(text, "split"):
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if len(given) == 2 and "device" in text.node_text(given[1]) and "axis" not in text.node_text(call):
            key, many = (text.node_text(one) for one in given)
            known = next((one for one in calls_of(text, "replicate") if len(one.args) == 1), None)
            new = (
                f"{text.node_text(known.func)}({key})" if known is not None else f"jax.numpy.stack([{key}] * {many})"
            )
            yield call.lineno, *text.node_span(call), new


def _keyword_elements(text: Text, of: str, keyword: str) -> Iterator[list[ast.expr]]:
    for call in calls_of(text, of):
        for given in call.keywords:
            if given.arg == keyword:
                yield given.value.elts if isinstance(given.value, ast.Tuple) else [given.value]


def _replicate_out_specs(text: Text) -> Iterator[Change]:
    """`out_specs=P("data")` of a shard_map becomes `out_specs=P()`, one of several too."""
    for specs in _keyword_elements(text, "shard_map", "out_specs"):
        for spec in specs:
            if isinstance(spec, ast.Call) and full_name(spec.func) in SPECS and spec.args:
                if any(text.node_text(one) != "None" for one in spec.args):
                    yield spec.lineno, *text.node_span(spec), f"{text.node_text(spec.func)}()"


def _drop_last_spec(of: str, keyword: str) -> Callable[[Text], Iterator[Change]]:
    """The last of several `in_specs` or `in_axes` is forgotten."""

    def find_changes(text: Text) -> Iterator[Change]:
        for parts in _keyword_elements(text, of, keyword):
            if len(parts) > 1:
                yield (
                    parts[-2].lineno,
                    text.node_span(parts[-2])[1],
                    text.node_span(parts[-1])[1],
                    "," * (len(parts) == 2),
                )

    return find_changes


def _swap_specs(of: str, keyword: str) -> Callable[[Text], Iterator[Change]]:
    """Two of several `in_specs` or `in_axes` that are unlike change places."""

    def find_changes(text: Text) -> Iterator[Change]:
        for parts in _keyword_elements(text, of, keyword):
            for one, two in pairwise(parts):
                if text.node_text(one) != text.node_text(two):
                    yield swap_expressions(text, one, two)

    return find_changes


def _axis_names(text: Text) -> Iterator[Change]:
    """A collective is given an axis that is not there."""
    for call in calls_of(
        text, "psum", "pmean", "pmax", "all_gather", "axis_index", "ppermute", "all_to_all", "psum_scatter"
    ):
        given = [*call.args[:2], *(one.value for one in call.keywords if one.arg == "axis_name")]
        for one in given:
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                yield one.lineno, *text.node_span(one), repr(f"{one.value}s")
                break


def _remove_keyword(keyword: str, *names: str) -> Callable[[Text], Iterator[Change]]:
    """A keyword of some functions is taken away."""

    def find_changes(text: Text) -> Iterator[Change]:
        for call in calls_of(text, *names):
            for given in call.keywords:
                first = call.keywords[0] is given and not call.args
                if given.arg == keyword and not first and text.node_text(given.value) not in ("None", "False"):
                    yield remove_call_keyword(text, call, given)

    return find_changes


def _gathered_axis(text: Text) -> Iterator[Change]:
    """`all_gather(x, axis, axis=0)` becomes `axis=1`, and back."""
    for call in calls_of(text, "all_gather", "psum_scatter"):
        for given in call.keywords:
            if given.arg in ("axis", "scatter_dimension") and isinstance(given.value, ast.Constant):
                yield call.lineno, *text.node_span(given.value), "1" if given.value.value == 0 else "0"


def _remove_replicate(text: Text) -> Iterator[Change]:
    """`state = replicate(state)` becomes `state = state`."""
    for target, call in _self_assignments(text, "replicate"):
        if len(call.args) == 1 and not call.keywords:
            yield call.lineno, *text.node_span(call), target


def _remove_unreplicate(text: Text) -> Iterator[Change]:
    """`unreplicate(state)` becomes `state`."""
    for call in calls_of(text, "unreplicate"):
        if len(call.args) == 1:
            yield call.lineno, *text.node_span(call), text.node_text(call.args[0])


def _remove_process_guard(text: Text) -> Iterator[Change]:
    """`if jax.process_index() == 0:` before what writes files becomes `if True:`."""
    for node in text.nodes:
        if isinstance(node, ast.If) and not node.orelse and any(word in text.node_text(node.test) for word in _ZERO):
            start, end = text.node_span(node.test)[1], node.body[-1].end_lineno or node.lineno
            body = text.bytes[start : text.lines[end]].decode("utf-8", "replace")
            if any(word in body for word in _WRITES) and " or " not in text.node_text(node.test):
                yield node.lineno, *text.node_span(node.test), "True"


def _guard_call_by_process(*names: str) -> Callable[[Text], Iterator[Change]]:
    """Return a mutation that lets the first process alone make a call that all processes must make."""

    def find_changes(text: Text) -> Iterator[Change]:
        for node in text.nodes:
            call = node.value if isinstance(node, ast.Expr | ast.Assign) else None
            if isinstance(call, ast.Call) and full_name(call.func) in names:
                assert isinstance(node, ast.Expr | ast.Assign)
                start = text.lines[node.lineno - 1] + node.col_offset
                end = text.node_span(call)[1]
                indent = "\n" + " " * (node.col_offset + 4)
                told = text.bytes[start:end].decode("utf-8", "replace")
                if text.bytes[text.lines[node.lineno - 1] : start].strip() == b"":
                    yield node.lineno, start, end, f"if jax.process_index() == 0:{indent}{told}"

    return find_changes


def _remove_barrier(text: Text) -> Iterator[Change]:
    """`sync_global_devices(...)` that stands by itself becomes `pass`."""
    for node in text.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if full_name(node.value.func) == "sync_global_devices":
                yield node.lineno, *text.node_span(node.value), "pass"


def _read_devices_before_initialize(text: Text) -> Iterator[Change]:
    """Something asks for devices before `jax.distributed.initialize()`."""
    for node in text.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if text.node_text(node.value.func).endswith("distributed.initialize"):
                start, _ = text.node_span(node.value)
                if text.bytes[text.lines[node.lineno - 1] : start].strip() == b"":
                    yield node.lineno, start, start, "print(jax.devices()); "


def _remove_process_division(what: str) -> Callable[[Text], Iterator[Change]]:
    """`batch_size // jax.process_count()` becomes `batch_size`."""

    def find_changes(text: Text) -> Iterator[Change]:
        for node in text.nodes:
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
                if what in text.node_text(node.right) and "batch" in text.node_text(node.left).lower():
                    yield node.lineno, *text.node_span(node), text.node_text(node.left)

    return find_changes


def _same_part(text: Text) -> Iterator[Change]:
    """`shard_index=jax.process_index()` becomes `shard_index=0`."""
    for node in text.nodes:
        if (
            isinstance(node, ast.keyword)
            and node.arg
            and any(word in node.arg for word in ("index", "id", "shard"))
        ):
            if isinstance(node.value, ast.Call) and full_name(node.value.func) in ("process_index", "host_id"):
                yield node.value.lineno, *text.node_span(node.value), "0"


def _break_ring_permutation(text: Text) -> Iterator[Change]:
    """`[(i, (i + 1) % n) for i in range(n)]` becomes `[(i, i + 1) for i in range(n - 1)]`."""
    for node in text.nodes:
        if isinstance(node, ast.ListComp) and isinstance(node.elt, ast.Tuple) and len(node.generators) == 1:
            around = node.generators[0].iter
            moved = [
                one for one in node.elt.elts if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod)
            ]
            if (
                len(moved) == 1
                and isinstance(around, ast.Call)
                and len(around.args) == 1
                and full_name(around.func) == "range"
            ):
                written = text.node_text(node)
                written = written.replace(text.node_text(moved[0]), text.node_text(moved[0].left), 1)
                written = written.replace(text.node_text(around), f"range({text.node_text(around.args[0])} - 1)", 1)
                yield node.lineno, *text.node_span(node), written


def _replace_local_data_by_device_put(text: Text) -> Iterator[Change]:
    """`make_array_from_process_local_data(sharding, x)` becomes `jax.device_put(x, sharding)`."""
    for call in calls_of(text, "make_array_from_process_local_data"):
        if len(call.args) >= 2:
            sharding, given = (text.node_text(one) for one in call.args[:2])
            yield call.lineno, *text.node_span(call), f"jax.device_put({given}, {sharding})"


OPERATORS = {
    "gradients not averaged": Operator((b"grad", b"axis"), _remove_gradient_mean),
    "metrics not averaged": Operator((b"pmean", b"axis"), _remove_metrics_mean),
    "a mean lost": Operator((b"pmean",), _remove_inner_collective("pmean")),
    "a sum lost": Operator((b"psum",), _remove_inner_collective("psum")),
    "mean becomes sum": Operator((b"pmean",), _replace_function_name("pmean", "psum")),
    "one key for all devices": Operator((b"fold_in", b"axis_index"), _remove_key_fold_in("axis_index")),
    "one key for all processes": Operator(
        (b"fold_in", b"process_index"), _remove_key_fold_in("process_index")
    ),
    "one seed for all processes": Operator((b"seed", b"process_index"), _remove_process_from_seed),
    "key copied": Operator((b"split", b"device", b"pmap"), _replicate_split_key),
    "declared replicated": Operator((b"out_specs",), _replicate_out_specs),
    "a spec forgotten": Operator((b"in_specs",), _drop_last_spec("shard_map", "in_specs")),
    "specs swapped": Operator((b"in_specs",), _swap_specs("shard_map", "in_specs")),
    "an axis forgotten": Operator((b"in_axes", b"pmap"), _drop_last_spec("pmap", "in_axes")),
    "axes swapped": Operator((b"in_axes", b"pmap"), _swap_specs("pmap", "in_axes")),
    "axis not there": Operator((b"lax", b"axis_name"), _axis_names),
    "no axis_name": Operator((b"pmap", b"axis_name"), _remove_keyword("axis_name", "pmap")),
    "not tiled": Operator((b"tiled",), _remove_keyword("tiled", "all_gather", "all_to_all", "psum_scatter")),
    "gathered on another axis": Operator((b"all_gather",), _gathered_axis),
    "allgather not tiled": Operator((b"tiled",), _remove_keyword("tiled", "process_allgather")),
    "not replicated": Operator((b"replicate", b"pmap"), _remove_replicate),
    "not unreplicated": Operator((b"unreplicate",), _remove_unreplicate),
    "global count": Operator(
        (b"local_device_count",), _replace_function_name("local_device_count", "device_count")
    ),
    "local count": Operator((b"device_count",), _replace_function_name("device_count", "local_device_count")),
    "global devices": Operator((b"local_devices",), _replace_function_name("local_devices", "devices")),
    "local devices": Operator((b"devices()",), _replace_function_name("devices", "local_devices")),
    "every process writes": Operator((b"process_index",), _remove_process_guard),
    "barrier of one process": Operator(
        (b"sync_global_devices",), _guard_call_by_process("sync_global_devices")
    ),
    "gather of one process": Operator(
        (b"allgather",), _guard_call_by_process("process_allgather", "broadcast_one_to_all")
    ),
    "no barrier": Operator((b"sync_global_devices",), _remove_barrier),
    "initialized late": Operator((b"distributed.initialize",), _read_devices_before_initialize),
    "batch of all processes": Operator((b"process_count",), _remove_process_division("process_count")),
    "batch of all devices": Operator((b"device_count",), _remove_process_division("device_count")),
    "same part of the data": Operator((b"process_index",), _same_part),
    "ring open": Operator((b"%", b"permute"), _break_ring_permutation),
    "put as if whole": Operator((b"make_array_from_process_local_data",), _replace_local_data_by_device_put),
    "restored without sharding": Operator(
        (b"sharding", b"restore"), _remove_keyword("sharding", "ShapeDtypeStruct", "ArrayRestoreArgs")
    ),
}
