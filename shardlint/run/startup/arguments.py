"""Arguments of the call that a frame of a traceback is in, as they are written, with the layouts of their arrays.

Loaded by its file from `raised.py` beside it, in the program's own process. It looks at what is there and runs
nothing: no property, no operator. What an expression gives, as of `x.T`, is taken from the function called with it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
import types
from typing import Any

_LEAVES = 400
_STEPS = 6
_INNERMOST = 8
_CALLERS = 4
layouts: Any = {}
"""The names of `leaves.py`; set by who loads this."""


def _list_leaves(*args: Any) -> Any:
    return layouts["leaves_of"](*args)


def call_of(frame: Any, at: Any, below: Any, above: Any) -> Any:
    """Return the last line of the expression that a frame is in, and the expression's operands with their leaves.

    `below` are the frames it called, `above` the user's frames that led to it.
    """
    where = next(_position_of_instruction(frame.f_code, at), None)
    if where is None or not where[1]:
        return None, None
    around = _find_expression(frame.f_code.co_filename, where)
    if not around:
        return where[1], None
    node, taken = around[-1], _HeldArguments(below)
    told = _describe_call(node, frame, taken)
    _note_names(told, frame, above)
    told["objects"] += [each for one in _entered_contexts(around) for each in _values_with_layouts(one, frame, taken)]
    statement = next(one for one in reversed(around) if isinstance(one, ast.stmt))
    given = [one["name"] for one in told["arguments"]]
    told["settings"] = [one for one in taken.settings if one["text"] not in given]
    if not _has_layouts(told) and not hasattr(statement, "body"):
        told["nearby"] = _values_with_layouts(statement, frame, taken)
    return where[1], told


def _note_names(told: Any, frame: Any, above: Any) -> None:
    """Note what the callers call the leaves that are parameters here: `w` may be `params['layer']['w']` of theirs."""
    code = frame.f_code
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    leaves = [
        leaf for one in told["arguments"] if one["text"] in parameters for leaf in one.get("leaves", ())
    ]
    wanted = {leaf["id"] for leaf in leaves if leaf["array"]}
    names: dict[Any, Any] = {}
    for caller in reversed(above[-_CALLERS:]) if wanted else ():
        for name, value in caller.f_locals.items():
            for leaf in _list_leaves(value, _LEAVES):
                if (
                    leaf["id"] in wanted
                    and len(names.get(leaf["id"], "")) < len(name + leaf["path"])
                    and leaf["path"]
                ):
                    names[leaf["id"]] = name + leaf["path"]
    for leaf in leaves:
        leaf["also"] = names.get(leaf["id"], "")


def _has_layouts(told: Any) -> Any:
    every = [leaf for one in (*told["arguments"], *told["objects"]) for leaf in one.get("leaves", ())]
    parts = [one for one in told["arguments"] if one.get("parts")]
    return parts or any(leaf["array"] or "layout" in leaf for leaf in every)


def _entered_contexts(around: Any) -> Any:
    """The contexts of the `with` statements around an expression, the innermost first."""
    for at, one in reversed(list(enumerate(around))):
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return
        if isinstance(one, ast.With) and around[at + 1] in one.body:
            yield from (item.context_expr for item in one.items)


def _position_of_instruction(code: Any, at: Any) -> Any:
    if hasattr(code, "co_positions"):
        for index, where in enumerate(code.co_positions()):
            if index == at // 2:
                yield where


def _find_expression(file: Any, where: Any) -> Any:
    """The expression at these lines and columns, behind all that is around it; empty if there is none."""
    around: list[Any] = []

    def descend_tree(node: Any) -> Any:
        around.append(node)
        if isinstance(node, ast.expr) and _position_of_node(node) == tuple(where):
            return True
        if any(descend_tree(one) for one in ast.iter_child_nodes(node)):
            return True
        around.pop()
        return False

    return around if descend_tree(_parse_file(file)) else []


@functools.cache
def _parse_file(file: Any) -> Any:
    return ast.parse("".join(linecache.getlines(file)))


def _position_of_node(node: Any) -> Any:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


class _HeldArguments:
    """Values of the arguments of a call, from the first function below it that holds them."""

    def __init__(self, below: Any) -> None:
        self.positional: Any = []
        self.named: Any = {}
        self.objects = _objects_of_libraries(below)
        self.settings = _mapping_settings(below)
        for frame in below[:2]:
            code, names = frame.f_code, frame.f_locals
            count = code.co_argcount
            held = code.co_varnames[: count + code.co_kwonlyargcount]
            if code.co_name == "<lambda>" or any(name not in names for name in held):
                continue
            self.named = {name: names[name] for name in held}
            if code.co_flags & inspect.CO_VARKEYWORDS:
                last = code.co_varnames[len(held) + bool(code.co_flags & inspect.CO_VARARGS)]
                self.named |= names.get(last, {})
            self.positional = [names[name] for name in held[:count]]
            if code.co_flags & inspect.CO_VARARGS:
                self.positional += names.get(code.co_varnames[len(held)], ())
            self.method = held[:1] in (("self",), ("cls",))
            break

    def argument_value(self, at: Any, name: Any, node: Any) -> Any:
        """Return an argument, by its position or keyword. Raises KeyError or IndexError if it is not held."""
        if name is not None:
            return self.named[name]
        if not isinstance(node, ast.Call):
            return self.positional[at]
        # What is called on an object gets the object first.
        exact = isinstance(node.func, ast.Attribute) and len(self.positional) == len(node.args) + 1
        return self.positional[at + (self.method or exact)]

    method = False


def _objects_of_libraries(below: Any) -> Any:
    """Return what the innermost functions of a library hold in variables: objects by their ids, shapes of types."""
    found: Any = set()
    for frame in below[-_INNERMOST:]:
        for value in frame.f_locals.values():
            if type(value).__name__ == "ShapedArray":
                found.add(tuple(value.shape))
            elif hasattr(value, "shape") or hasattr(value, "spec"):
                found.add(id(value))
    return found


_SETTINGS = ("mesh", "in_specs", "out_specs", "in_shardings", "out_shardings")


def _mapping_settings(below: Any) -> Any:
    """The specs and meshes that a mapped or compiled function was made with, from the functions that run it."""
    found: dict[str, Any] = {}
    for frame in below:
        for name in _SETTINGS:
            if name in frame.f_locals and name not in found:
                leaves = [leaf for leaf in _list_leaves(frame.f_locals[name], _LEAVES) if "layout" in leaf]
                if leaves:
                    found[name] = {"name": "", "text": name, "known": True, "leaves": leaves}
    return list(found.values())


def _describe_call(node: Any, frame: Any, taken: Any) -> Any:
    """Return the called function and its arguments, or the operands of an operator."""
    if isinstance(node, ast.Call):
        given = [(None, one) for one in node.args] + [(one.arg, one.value) for one in node.keywords]
        mapped = _find_pmap(node.func, frame)
        told = {
            "callee": ast.unparse(node.func if mapped is None else mapped["callee"]),
            **_describe_target(node.func, frame),
            "arguments": _describe_arguments(given, frame, taken, node, mapped),
            "objects": _values_with_layouts(node.func, frame, taken),
        }
        return told if mapped is None else {**told, "devices": mapped["devices"]}
    operands = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
    given = [(None, one) for one in operands]
    return {
        "callee": "",
        "text": ast.unparse(node)[:120],
        "parameters": [],
        "arguments": _describe_arguments(given, frame, taken, node),
        "objects": [],
    }


def _values_with_layouts(node: Any, frame: Any, taken: Any) -> Any:
    """The values in an expression that holds arrays or layouts: of `table.at[ids].add` they are `table` and `ids`."""
    if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return []  # its names are its own
    try:
        value = _look_up_value(node, frame)
        leaves = [
            leaf for leaf in _list_leaves(value, _LEAVES, taken.objects) if leaf["array"] or "layout" in leaf
        ]
        if leaves:
            return [{"name": "", "text": ast.unparse(node)[:200], "known": True, "leaves": leaves}]
    except Exception:
        leaves = []
    parts = [one for one in ast.iter_child_nodes(node) if isinstance(one, (ast.expr, ast.keyword))]
    return [each for one in parts for each in _values_with_layouts(one, frame, taken)]


def _describe_target(node: Any, frame: Any) -> Any:
    try:
        target = _look_up_value(node, frame)
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


def _find_pmap(node: Any, frame: Any) -> Any:
    """The callee as written, its `in_axes` and the number of devices, of what `pmap` made; None of anything else."""
    try:
        if isinstance(node, ast.Call):  # jax.pmap(step, in_axes=...)(state)
            maker = _look_up_value(node.func, frame)
            options = {one.arg: _look_up_value(one.value, frame) for one in node.keywords if one.arg in _OF_PMAP}
            arrays = maker.__module__.startswith("equinox")
            options = {"in_axes": _axis_of_leaf if arrays else 0, **options}
            return _describe_pmap(node.args[0], options) if maker.__name__ in ("pmap", "filter_pmap") else None
        target = _look_up_value(node, frame)
        while target is not None:
            if type(target).__name__ == "_PmapWrapper":
                return _describe_pmap(node, {"in_axes": target._in_axes, "axis_size": target._axis_size})
            # jax and Flax keep what they were given in what the functions that they make close over.
            attributes = vars(target)
            waiting = [
                target,
                *(attributes[name] for name in ("lower", "_prepare_pmap") if name in attributes),
            ]
            for _ in range(_STEPS):
                inside = _closure_variables(waiting.pop(0)) if waiting else {}
                if "in_axes" in inside and not inside.keys().isdisjoint(_WITH_AXES):
                    return _describe_pmap(node, inside)
                waiting += [inside[name] for name in ("infer_params", "trace", "fun") if name in inside]
            target = attributes.get("__wrapped__")
    except Exception:  # of what cannot be looked up nothing is known
        return None
    return None


_WITH_AXES = ("devices", "in_devices", "pmapped_fn")
_OF_PMAP = ("in_axes", "axis_size", "devices", "static_broadcasted_argnums")


def _describe_pmap(callee: Any, options: Any) -> Any:
    static = options.get("static_broadcasted_tuple", options.get("static_broadcasted_argnums")) or ()
    devices = options.get("devices", options.get("in_devices"))
    count = options.get("axis_size") or (len(devices) if devices else sys.modules["jax"].local_device_count())
    return {
        "callee": callee,
        "axes": options["in_axes"],
        "static": (static,) if isinstance(static, int) else tuple(static),
        "devices": count,
    }


def _closure_variables(function: Any) -> Any:
    """Return the variables that a function closes over by name, or the arguments bound by a partial."""
    if isinstance(function, functools.partial):
        return inspect.signature(function.func).bind_partial(*function.args, **function.keywords).arguments
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}


def _axis_of_leaf(leaf: Any) -> Any:
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
    for leaf, axis in zip(leaves, _axes_of_leaves(axes, value), strict=False):
        if axis is not None and leaf["type"] in numbers:
            leaf.update(array=True, shape=[], dtype=leaf["type"])
        leaf["axis"] = axis


def _axes_of_leaves(axes: Any, value: Any) -> Any:
    """The axis of each leaf of a tree, of axes for the beginning of the tree."""
    tree = sys.modules["jax"].tree_util
    if axes is None or isinstance(axes, int):
        return [axes] * len(tree.tree_leaves(value))
    if callable(axes):
        return [axes(leaf) for leaf in tree.tree_leaves(value)]
    found: list[Any] = []

    def note_axis(axis: Any, part: Any) -> None:
        found.extend(_axes_of_leaves(axis, part))

    tree.tree_map(note_axis, axes, value, is_leaf=lambda one: one is None)
    return found


def _describe_arguments(given: Any, frame: Any, taken: Any, node: Any, mapped: Any = None) -> Any:
    told: list[Any] = []
    left = _LEAVES
    position = 0
    for name, each in given:
        starred = isinstance(each, ast.Starred)
        text = ast.unparse(each.value if starred else each)[:200]
        try:
            value = _look_up_value(each.value if starred else each, frame)
        except Exception:
            try:
                value = taken.argument_value(position, name, node)
            except Exception:
                text = ast.unparse(each)[:200]
                parts = _values_with_layouts(each, frame, taken)
                told.append({"name": name, "text": text, "starred": starred, "known": False, "parts": parts})
                position += name is None
                continue
        parts = [(text, value)]
        if starred:  # each of what it stands for
            parts = [(f"{text}[{at}]", one) for at, one in enumerate(value)]
        for text, value in parts:
            leaves = _list_leaves(value, left, taken.objects)
            left -= len(leaves)
            if mapped is not None:
                _note_axes(leaves, position if name is None else None, value, mapped)
            if isinstance(each, (ast.Tuple, ast.List)):
                _name_parts(leaves, each)
            one = {"name": name, "text": text, "known": True, "type": type(value).__name__, "leaves": leaves}
            told.append(one)
            position += name is None
    return told


def _name_parts(leaves: Any, node: Any) -> None:
    """Call the leaves of `[x, y]` what they are written as, and not `[x, y][0]`."""
    for leaf in leaves:
        index, _, rest = leaf["path"][1:].partition("]")
        if index.isdigit() and not any(isinstance(one, ast.Starred) for one in node.elts):
            leaf["as"] = ast.unparse(node.elts[int(index)]) + rest


class _UnknownValue(Exception):
    pass


def _look_up_value(node: Any, frame: Any) -> Any:
    """Return the value of an expression if it can be looked up. Raises for anything that would have to run."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
            if node.id in names:
                return names[node.id]
    if isinstance(node, ast.Attribute):
        return _read_attribute(_look_up_value(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        of = _look_up_value(node.value, frame)
        if type(of) in (dict, list, tuple):
            return of[_look_up_value(node.slice, frame)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return ast.literal_eval(node)
    if isinstance(node, (ast.Tuple, ast.List)) and not any(isinstance(one, ast.Starred) for one in node.elts):
        return tuple(_look_up_value(one, frame) for one in node.elts)
    raise _UnknownValue


def _read_attribute(of: Any, name: Any) -> Any:
    if isinstance(of, types.ModuleType):
        return vars(of)[name]
    found = inspect.getattr_static(of, name)
    if isinstance(found, property):
        raise _UnknownValue
    return getattr(of, name)
