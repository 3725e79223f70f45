"""The general explanation of an exception: what the failing call got, with layouts and the lines they are from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from shardlint.run.raised.explanation import Explanation, callee_text, first_of_many, format_device_numbers
from shardlint.run.raised.recognition import RecognisedError
from shardlint.run.raised.record import CallArgument, Error, Frame, Leaf

_LIBRARIES = ("jax", "jaxlib", "flax", "equinox", "haliax", "optax", "orbax", "einshard")
_MOST = 6
# Also what scripts/raising_sites.py looks for in the sources of the libraries.
ABOUT = re.compile(
    r"shard(?!map_)|\bmesh\b|\bmesh_|_mesh\b|partition|(?:in|out)_(?:specs|axes)\b|\bpspec|device.assignment"
    r"|incompatible device|memory.(?:kind|space)|\bpmap|\bvmap (?:got|was)|squeeze out|axis.name"
    r"|unbound axis|donat|deleted|manual|\bvma\b|varying|varies|replicat|addressable|logical ax|NamedArray"
    r"|tree prefix|axis_size|pcast|\w@\w+[,\]]"
    r"|named axis|\bCarry\b|number of devices|pytree struct|tree structures|batch axis sizes",
    re.IGNORECASE | re.DOTALL,
)


def explain_layouts(found: RecognisedError, beside_finding: bool = False) -> Explanation | None:
    """Return what the failing call was given; None of an error that is about no layouts, or of a call without any.

    Beside a finding it says no more than that.
    """
    error, kind = found.error, found.kind
    known = kind is not None and not kind.exact and _raising_library(error) != ""
    if error.user_frame is None or not (known or beside_finding or speaks_of_layouts(error)):
        return None
    arrays = describe_arguments(error)
    says, help = (kind.says, kind.help) if kind is not None and not beside_finding else ("", "")
    if not arrays and not says:
        return None
    names = _placeholder_texts(found)
    return Explanation(
        says.format_map(names) if says else _describe_call(error),
        first_of_many(arrays),
        help.format_map(names),
        live=bool(arrays),
    )


def _describe_call(error: Error) -> str:
    if error.failing_call is not None and error.failing_call.nearby:
        return f"the statement with {callee_text(error.failing_call)} uses these layouts"
    return f"{callee_text(error.failing_call)} got these layouts"


def _placeholder_texts(error: RecognisedError) -> dict[str, str]:
    """Return the words that the text of a kind may name, such as the arrays of the call."""
    call = error.error.failing_call
    leaves = call.argument_arrays + [leaf for one in call.objects for leaf in one.leaves] if call is not None else []
    leaves.sort(key=lambda leaf: not leaf.looked_at)
    sharded = [leaf for leaf in leaves if leaf.spec.strip("P()None, ")]
    first = (sharded or leaves or [Leaf("x")])[0]
    others = [leaf for leaf in leaves if leaf.spec != first.spec and leaf.where != first.where]
    said = re.findall(r"\{V:([\w,]+)\}", error.error.message)
    varying = sorted(
        {axis for leaf in leaves for axis in leaf.varying}.union(*(one.split(",") for one in said))
    )
    starts = (
        [one.text for one in call.arguments if one.parameter in ("init", "init_val")]
        if call is not None
        else []
    )
    gone = [leaf.where for leaf in leaves if leaf.deleted]
    layouts = (
        [leaf for one in (*call.arguments, *call.settings) for leaf in one.others] if call is not None else []
    )
    axes = next((leaf.mesh for leaf in (*layouts, *leaves) if leaf.mesh), {})
    return {
        "callee": callee_text(call),
        "word": error.words[0] if error.words else "",
        "deleted": gone[0] if gone else first.where,
        "mesh_axes": ", ".join(map(repr, axes)) or "others",
        "array": first.where,
        "spec": first.spec or "spec",
        "other": others[0].where if others else first.where,
        "start": starts[0] if starts else "value",
        "other_memory": next((leaf.where for leaf in leaves if leaf.memory), first.where),
        "axes": repr(varying[0] if len(varying) == 1 else tuple(varying)) if varying else "axes",
    }


def speaks_of_layouts(error: Error) -> bool:
    """Return whether a library raised an error about layouts."""
    package = _raising_library(error)
    if not error.message and error.inside:  # an assertion: only where it stands tells what it is about
        return package != "" and any(_MODULES.search(Path(file).name) for file, _, _ in error.inside[-3:])
    return package == "haliax" or (package != "" and ABOUT.search(error.error_text) is not None)


def _raising_library(error: Error) -> str:
    """The library that raised an error; empty if it was no library that knows of layouts."""
    path = error.inside[-1][0].replace("\\", "/").rpartition("site-packages/")[2] if error.inside else ""
    package = path.partition("/")[0]
    if error.type in ("JaxRuntimeError", "XlaRuntimeError"):
        return "jaxlib"
    return package if package in _LIBRARIES else ""


_MODULES = re.compile(r"shard|mesh|parallel|partition|spmd|pmap|pjit")


def describe_arguments(error: Error) -> list[str]:
    """Return a line for each array and layout that the failing call was given, the ones jax looked at first."""
    call = error.failing_call
    if call is None:
        return []
    leaves = [leaf for given in (*call.arguments, *call.objects, *call.nearby) for leaf in _leaves_to_show(given)]
    looked_at = [leaf for leaf in leaves if leaf.looked_at]
    looked_at = [leaf for leaf in leaves if leaf.deleted] or looked_at
    if len(leaves) > _MOST and looked_at:
        leaves = [*looked_at, *(leaf for leaf in leaves if leaf not in looked_at)]
    lines: dict[str, None] = {}
    for leaf in leaves:
        origin = f", which is {leaf.also}" if leaf.also else _describe_origin(leaf, error)
        lines.setdefault(describe_leaf(leaf) + origin)
    for leaf in (one for given in call.settings for one in _leaves_to_show(given)):
        if leaf.spec or all(leaf.mesh != other.mesh for other in leaves):
            lines.setdefault(describe_leaf(leaf))
    context = error.context
    if lines and context is not None and context.mesh and all(leaf.mesh != context.mesh for leaf in leaves):
        lines.setdefault(describe_leaf(context))
    return list(lines)


def _leaves_to_show(argument: CallArgument) -> Iterator[Leaf]:
    yield from argument.leaves
    for leaf in argument.others:
        names_axes = leaf.value and _NAME.fullmatch(argument.text) and _AXES.search(leaf.parameter)
        if names_axes or (leaf.layout and (leaf.spec or leaf.mesh)):
            # `in_specs[0]` says more than `(P('data'),)[0]`.
            unnamed = argument.parameter in ("", "args", "kwargs") or _NAME.fullmatch(argument.text)
            yield leaf if unnamed else replace(leaf, where=f"{leaf.parameter} =")


_AXES = re.compile(r"ax[ie]s|mapping|rules|shape|sizes|spec")
_NAME = re.compile(r"(?!None|True|False)[A-Za-z_][\w.]*(?:\[[^\]]*\])*")


def describe_leaf(leaf: Leaf) -> str:
    """`w f32[64,32] P('data', None) over data=8 (Explicit)`."""
    if not leaf.array and not leaf.layout:
        return f"{leaf.where} = {leaf.value}"
    mesh = leaf.text_of_mesh()
    text = leaf.describe_leaf()
    if leaf.spec and not text.endswith(leaf.spec):
        text += f" {leaf.spec}"
    if leaf.layout and not leaf.spec:
        text += f": {mesh}"
    elif leaf.spec and mesh:
        text += f" over {mesh}"
    elif leaf.devices and leaf.committed:
        text += f" on {format_device_numbers(leaf.devices)}"
    if leaf.varying:
        text += f", varies along {', '.join(leaf.varying)}"
    if leaf.memory:
        text += f", in {leaf.memory.lower()} memory"
    return text + (", deleted" if leaf.deleted else "")


def _describe_origin(leaf: Leaf, error: Error) -> str:
    """Where the value of an argument is from: the line that assigns its name, or the call that passed it."""
    frames = error.user_frames
    frame = frames[-1]
    root = re.match(r"(?:self\.)?\w+(?=$|[\[.])", leaf.where)
    if root is None:
        return ""
    caller = frames[-2].call if len(frames) > 1 else None
    passed = [one for one in caller.arguments if one.parameter == root[0]] if caller is not None else []
    line = _line_of_assignment(frame, root[0])
    if line == 0 and passed and passed[0].text != leaf.where:
        return f", from `{passed[0].text}` at line {frames[-2].line}"
    return f", from line {line}" if line > 0 and line != frame.line else ""


def _line_of_assignment(frame: Frame, name: str) -> int:
    """The last line before the frame's that assigns a name in its function, else in its module; 0 of a parameter, and
    -1 where no line is known.
    """
    scope = next((one for one in _function_definitions(frame.file) if one.lineno <= frame.line <= (one.end_lineno or 0)
                  and one.name == frame.function), None)  # fmt: skip
    if scope is not None:
        arguments = scope.args
        every = (
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        )
        if inside := [line for line in _assignment_lines(scope, name) if line < frame.line]:
            return inside[-1]
        if any(one is not None and one.arg == name for one in every):
            return 0
    tree = _parse_source(frame.file)
    outside = (
        _assignment_lines(tree, name)
        if tree is not None and (frame.function == "<module>" or "." in name or scope)
        else []
    )
    before = [line for line in outside if line < frame.line or frame.function != "<module>"]
    return before[-1] if before and (len(before) == 1 or frame.function == "<module>") else -1


def _assignment_lines(tree: ast.AST, name: str) -> list[int]:
    return sorted(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node) == name
    )


@cache
def _parse_source(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_text("utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None


def _function_definitions(file: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    nodes = ast.walk(_parse_source(file) or ast.Module([], []))
    functions = [one for one in nodes if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    return sorted(functions, key=lambda one: -one.lineno)
