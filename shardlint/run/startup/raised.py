"""Recording of the exception that ended a program under `shardlint run`: its frames, and the arguments of the failing
calls.

Loaded by its file at the end of a process that an exception ended (or when one ended a thread), so that nothing of
shardlint is on the program's path. It looks at what is there and runs nothing: no property, no operator.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import linecache
import os
import sys
import types
from typing import Any

_TEXT = 20_000
_FRAMES = 200
_LEAVES = 400
_CHAIN = 6
_STEPS = 6
# This file is run and not imported, so nothing else says where it lies.
_HERE = os.path.dirname(os.path.abspath(sys._getframe().f_code.co_filename))  # noqa: PTH100, PTH120
_ASIDE = os.path.join(os.path.dirname(_HERE), "observe")  # noqa: PTH118, PTH120
# jax's own, which repeat the exception they hang on.
_ECHOES = ("UnfilteredStackTrace", "SimplifiedTraceback", "JaxStackTraceBeforeTransformation")


def write(error: BaseException, path: str, thread: str = "", test: str = "") -> None:
    """Put down one exception as JSON, in a file of its own."""
    errors = [_error(one) for one in _chain(error)]
    data = {"thread": thread, "test": test, "errors": errors, "releases": _releases()}
    part = f"{path}.part"
    with open(part, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        json.dump(data, file, default=str)
    os.replace(part, path)  # noqa: PTH105


def _chain(error: Any) -> Any:
    """An exception and those it was raised from, the last raised first."""
    found: list[Any] = []
    waiting = [error]
    while waiting and len(found) < _CHAIN:
        one = waiting.pop(0)
        if one is None or any(one is other for other in found):
            continue
        if type(one).__name__ not in _ECHOES:
            found.append(one)
        after = one.__cause__ if one.__cause__ is not None or one.__suppress_context__ else one.__context__
        waiting += [*list(getattr(one, "exceptions", ()))[:3], after]
    return found


def _error(error: Any) -> Any:
    try:
        text = str(error)[:_TEXT]
    except Exception:
        text = ""
    return {
        "type": type(error).__name__,
        "module": type(error).__module__,
        "bases": [base.__name__ for base in type(error).__mro__],
        "message": text,
        "frames": [_frame(tb) for tb in list(_walk(error.__traceback__))[-_FRAMES:]],
        "line": getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None,
    }


def _walk(tb: Any) -> Any:
    """The frames of a traceback, without those of what looks on: it stands between a call and what it calls."""
    while tb is not None:
        if not os.path.abspath(tb.tb_frame.f_code.co_filename).startswith(_ASIDE):  # noqa: PTH100
            yield tb
        tb = tb.tb_next


def _frame(tb: Any) -> Any:
    code = tb.tb_frame.f_code
    file = code.co_filename if code.co_filename.startswith("<") else os.path.abspath(code.co_filename)  # noqa: PTH100
    told = {
        "file": file,
        "line": tb.tb_lineno,
        "end": tb.tb_lineno,
        "function": code.co_name,
        "first": code.co_firstlineno,
        "call": None,
    }
    if "site-packages" in code.co_filename or code.co_filename.startswith("<"):
        return told
    try:
        where = next(_positions(code, tb.tb_lasti), None)
        if where and where[1]:
            told["end"] = where[1]
            node = _at(code.co_filename, where)
            if node is not None:
                told["call"] = _call(node, tb.tb_frame, _taken_by_pmap(tb))
    except Exception:  # what is told of a failure must not be another
        told["call"] = None
    return told


def _positions(code: Any, at: Any) -> Any:
    if hasattr(code, "co_positions"):
        for index, where in enumerate(code.co_positions()):
            if index == at // 2:
                yield where


def _at(file: Any, where: Any) -> Any:
    """The expression at these lines and columns."""
    tree = ast.parse("".join(linecache.getlines(file)))
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            if (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) == tuple(where):
                return node
    return None


def _taken_by_pmap(tb: Any) -> Any:
    """Return the positional arguments of a pmapped function, if a frame below shows them (jax 0.8 on)."""
    for below in list(_walk(tb))[1:3]:
        code = below.tb_frame.f_code
        if code.co_name == "wrapped" and os.path.basename(code.co_filename) == "pmap.py":  # noqa: PTH119
            return below.tb_frame.f_locals["args"]
    return ()


def _call(node: Any, frame: Any, taken: Any = ()) -> Any:
    """Return the called function and its arguments. `taken` holds arguments whose expressions cannot be looked up."""
    if isinstance(node, ast.Call):
        given = [(None, one) for one in node.args] + [(one.arg, one.value) for one in node.keywords]
        mapped = _mapped(node.func, frame)
        told = {
            "callee": ast.unparse(node.func if mapped is None else mapped["callee"]),
            **_target(node.func, frame),
            "arguments": _given(given, frame, mapped, taken),
        }
        return told if mapped is None else {**told, "devices": mapped["devices"]}
    if isinstance(node, ast.BinOp):
        given = [(None, node.left), (None, node.right)]
        return {"callee": "", "parameters": [], "arguments": _given(given, frame)}
    return None


def _target(node: Any, frame: Any) -> Any:
    try:
        target = _value(node, frame)
        code = getattr(inspect.unwrap(target), "__code__", None)
        told: dict[str, Any] = {
            "type": type(target).__name__,
            "module": str(getattr(target, "__module__", "")),
        }
        if code is not None:
            told |= {"defined": [code.co_filename, code.co_firstlineno]}
        told["parameters"] = list(inspect.signature(target).parameters)
    except Exception:
        return {"parameters": []}
    return told


def _mapped(node: Any, frame: Any) -> Any:
    """The callee as written, its `in_axes` and the number of devices, of what `pmap` made; None of anything else."""
    try:
        if isinstance(node, ast.Call):  # jax.pmap(step, in_axes=...)(state)
            maker = _value(node.func, frame)
            options = {one.arg: _value(one.value, frame) for one in node.keywords if one.arg in _OF_PMAP}
            arrays = maker.__module__.startswith("equinox")
            options = {"in_axes": _of_array if arrays else 0, **options}
            return _over(node.args[0], options) if maker.__name__ in ("pmap", "filter_pmap") else None
        target = _value(node, frame)
        while target is not None:
            if type(target).__name__ == "_PmapWrapper":
                return _over(node, {"in_axes": target._in_axes, "axis_size": target._axis_size})
            # jax and Flax keep what they were given in what the functions that they make close over.
            attributes = vars(target)
            waiting = [target, *(attributes[name] for name in ("lower", "_prepare_pmap") if name in attributes)]
            for _ in range(_STEPS):
                inside = _closed_over(waiting.pop(0)) if waiting else {}
                if "in_axes" in inside and not inside.keys().isdisjoint(_WITH_AXES):
                    return _over(node, inside)
                waiting += [inside[name] for name in ("infer_params", "trace", "fun") if name in inside]
            target = attributes.get("__wrapped__")
    except Exception:  # of what cannot be looked up nothing is known
        return None
    return None


_WITH_AXES = ("devices", "in_devices", "pmapped_fn")
_OF_PMAP = ("in_axes", "axis_size", "devices", "static_broadcasted_argnums")


def _over(callee: Any, options: Any) -> Any:
    static = options.get("static_broadcasted_tuple", options.get("static_broadcasted_argnums")) or ()
    devices = options.get("devices", options.get("in_devices"))
    count = options.get("axis_size") or (len(devices) if devices else sys.modules["jax"].local_device_count())
    return {
        "callee": callee,
        "axes": options["in_axes"],
        "static": (static,) if isinstance(static, int) else tuple(static),
        "devices": count,
    }


def _closed_over(function: Any) -> Any:
    """Return the variables that a function closes over by name, or the arguments bound by a partial."""
    if isinstance(function, functools.partial):
        return inspect.signature(function.func).bind_partial(*function.args, **function.keywords).arguments
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}


def _of_array(leaf: Any) -> Any:
    """Return the value of `eqx.if_array(0)` for a leaf."""
    return 0 if hasattr(leaf, "shape") else None


def _note_axes(leaves: Any, at: Any, value: Any, mapped: Any) -> None:
    """Note the axis of each leaf of an argument that is mapped; `at` is its position, None of a keyword."""
    axes = mapped["axes"]
    if at is not None and at in mapped["static"]:
        axes = None
    elif isinstance(axes, (tuple, list)):
        axes = 0 if at is None else axes[at]
    elif isinstance(axes, dict):  # by parameter, of Equinox
        axes = 0
    numbers = "bool", "int", "float", "complex"
    for leaf, axis in zip(leaves, _spread(axes, value), strict=False):
        if axis is not None and leaf["type"] in numbers:
            leaf.update(array=True, shape=[], dtype=leaf["type"])
        leaf["axis"] = axis


def _spread(axes: Any, value: Any) -> Any:
    """The axis of each leaf of a tree, of axes for the beginning of the tree."""
    tree = sys.modules["jax"].tree_util
    if axes is None or isinstance(axes, int):
        return [axes] * len(tree.tree_leaves(value))
    if callable(axes):
        return [axes(leaf) for leaf in tree.tree_leaves(value)]
    found: list[Any] = []

    def note(axis: Any, part: Any) -> None:
        found.extend(_spread(axis, part))

    tree.tree_map(note, axes, value, is_leaf=lambda one: one is None)
    return found


def _given(given: Any, frame: Any, mapped: Any = None, taken: Any = ()) -> Any:
    told: list[Any] = []
    left = _LEAVES
    for name, node in given:
        starred = isinstance(node, ast.Starred)
        text = ast.unparse(node.value if starred else node)[:200]
        try:
            if name is None and not starred and len(told) < len(taken):
                value = taken[len(told)]
            else:
                value = _value(node.value if starred else node, frame)
            parts = [(text, value)]
            if starred:  # each of what it stands for
                parts = [(f"{text}[{at}]", each) for at, each in enumerate(value)]
        except Exception:
            told.append({"name": name, "text": ast.unparse(node)[:200], "starred": starred, "known": False})
            continue
        for text, value in parts:
            leaves = _leaves(value, left)
            left -= len(leaves)
            if mapped is not None:
                _note_axes(leaves, len(told) if name is None else None, value, mapped)
            one = {"name": name, "text": text, "known": True, "type": type(value).__name__, "leaves": leaves}
            told.append(one)
    return told


class _Unknown(Exception):
    pass


def _value(node: Any, frame: Any) -> Any:
    """Return the value of an expression if it can be looked up. Raises for anything that would have to run."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
            if node.id in names:
                return names[node.id]
    if isinstance(node, ast.Attribute):
        return _attribute(_value(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        of = _value(node.value, frame)
        if type(of) in (dict, list, tuple):
            return of[_value(node.slice, frame)]
    if isinstance(node, (ast.Tuple, ast.List)) and not any(isinstance(one, ast.Starred) for one in node.elts):
        return tuple(_value(one, frame) for one in node.elts)
    raise _Unknown


def _attribute(of: Any, name: Any) -> Any:
    if isinstance(of, types.ModuleType):
        return vars(of)[name]
    found = inspect.getattr_static(of, name)
    if isinstance(found, property):
        raise _Unknown
    return getattr(of, name)


def _leaves(value: Any, most: Any) -> Any:
    jax = sys.modules.get("jax")
    if jax is None:
        return []
    try:
        paths = jax.tree_util.tree_flatten_with_path(value)[0][:most]
        flat = [(jax.tree_util.keystr(path), leaf) for path, leaf in paths]
    except Exception:
        flat = [("", value)]
    return [{"path": path, **_leaf(leaf)} for path, leaf in flat]


def _leaf(leaf: Any) -> Any:
    told: dict[str, Any] = {
        "type": type(leaf).__name__,
        "array": hasattr(leaf, "shape") and hasattr(leaf, "dtype"),
    }
    try:
        if told["array"]:
            told |= {"shape": list(leaf.shape), "dtype": str(leaf.dtype)}
        if "Tracer" in told["type"]:
            told |= {"traced": True, "short": leaf.aval.str_short()}
        elif hasattr(leaf, "is_deleted"):
            told["deleted"] = bool(leaf.is_deleted())
            told |= _placed(leaf.sharding)
            told["committed"] = bool(getattr(leaf, "_committed", True))
    except Exception:  # an array of which less is known
        return told
    return told


def _placed(sharding: Any) -> Any:
    told: dict[str, Any] = {"devices": sorted(device.id for device in sharding.device_set)[:4096]}
    order = getattr(sharding, "_device_assignment", None)
    if order is not None:
        told["order"] = [device.id for device in order][:4096]
    mesh, spec = getattr(sharding, "mesh", None), getattr(sharding, "spec", None)
    if mesh is not None and spec is not None:
        told["mesh"] = {str(name): int(size) for name, size in dict(mesh.shape).items()}
        told["spec"] = [list(part) if isinstance(part, tuple) else part for part in map(_plain, spec)]
    return told


def _plain(part: Any) -> Any:
    return part if part is None or isinstance(part, (str, tuple)) else str(part)


def _releases() -> Any:
    """The releases of what is imported."""
    names = ("jax", "jaxlib", "equinox", "flax", "haliax", "optax", "einshard")
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
    return {name: release for name, release in found.items() if isinstance(release, str)}
