"""einops: patterns of named dimensions, as the reshapes, transpositions and reductions that einops makes of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from shardlint.layouts.layout import Layout, Size, count_entries, divide_size
from shardlint.layouts.values import Call, Library, ListValue, Unknown, Value
from shardlint.libraries.jax_numpy import size_of
from shardlint.libraries.meeting import layout_as_array
from shardlint.libraries.registry import register_function

_TOKEN = re.compile(r"\.\.\.|[()]|\w+")
Group = list[str]
"""The names that one dimension is composed of; none for one of size 1."""


def _parse_groups(side: str) -> list[Group] | None:
    """The dimensions of one side of a pattern; None where its parentheses are odd."""
    found: list[Group] = []
    inside: Group | None = None
    for token in _TOKEN.findall(side):
        if token == "(":
            if inside is not None:
                return None
            inside = []
        elif token == ")":
            if inside is None:
                return None
            found.append(inside)
            inside = None
        else:
            names = [] if token == "1" else [token]
            if inside is None:
                found.append(names)
            else:
                inside += names
    return found if inside is None else None


def _expand_ellipsis(groups: list[Group], count: int) -> list[Group]:
    """The dimensions with so many in place of the dots."""
    dots = [f"...{place}" for place in range(count)]
    found: list[Group] = []
    for group in groups:
        if group == ["..."]:
            found += [[one] for one in dots]
        else:
            found.append([name for one in group for name in (dots if one == "..." else [one])])
    return found


def _sizes_of_names(groups: list[Group], array: Layout, given: dict[str, Value]) -> dict[str, Size] | None:
    """The sizes of the names of the left side; None where the pattern has another number of dimensions."""
    if array.shape is None or len(array.shape) != len(groups):
        return None
    sizes: dict[str, Size] = {name: size_of(one) for name, one in given.items()}
    for group, size in zip(groups, array.shape, strict=True):
        missing = [name for name in group if name not in given]
        rest = count_entries(tuple(sizes[name] for name in group if name in given))
        for name in missing:
            sizes[name] = divide_size(size, rest) if len(missing) == 1 else None
    return sizes


def _sizes_as_values(sizes: Sequence[Size]) -> tuple[Value, ...]:
    return tuple(Unknown("a size") if one is None else one for one in sizes)


def _call_array_library(call: Call, array: Layout, name: str, *args: Value, **keywords: Value) -> Layout:
    """Call a function of the library whose array it is."""
    home = "numpy" if array.host else "jax.numpy"
    return layout_as_array(call.interpreter.call_value(Library(f"{home}.{name}"), (array, *args), keywords, call.place))


@register_function("einops rearrange reduce repeat", "einops.einops rearrange reduce repeat")
def transform_dimensions(call: Call) -> Value:
    """An array whose dimensions are split up, reordered, reduced, repeated and joined."""
    given = call.argument_at(0, "tensor")
    if isinstance(given, ListValue | tuple):
        given = call.interpreter.call_value(Library("jax.numpy.stack"), (given,), {}, call.place)
    array, pattern = layout_as_array(given), call.argument_at(1, "pattern")
    sides = pattern.split("->") if isinstance(pattern, str) else []
    left, right = (_parse_groups(sides[0]), _parse_groups(sides[1])) if len(sides) == 2 else (None, None)
    if left is None or right is None or call.open or array.rank is None:
        return _call_array_library(call, array, "transpose").with_shape(None)
    dots = array.rank - len(left) + 1 if ["..."] in left else 0
    left, right = _expand_ellipsis(left, max(dots, 0)), _expand_ellipsis(right, max(dots, 0))
    named = {name: one for name, one in call.keywords.items() if name not in ("tensor", "pattern", "reduction")}
    sizes = _sizes_of_names(left, array, named)
    before, after = [name for group in left for name in group], [name for group in right for name in group]
    if sizes is None or len(set(before)) < len(before) or any(name not in sizes for name in after):
        return _call_array_library(call, array, "transpose").with_shape(None)
    if any(len(group) != 1 for group in left):
        array = _call_array_library(
            call, array, "reshape", _sizes_as_values([sizes[name] for name in before])
        )
    kept = [name for name in after if name in before]
    gone = [name for name in before if name not in after]
    order = [before.index(name) for name in (*kept, *gone)]
    if order != list(range(len(order))):
        array = _call_array_library(call, array, "transpose", tuple(order))
    if gone:
        array = _reduce_dimensions(call, array, tuple(range(len(kept), len(before))))
    for place, name in enumerate(after):
        if name not in before:
            array = _call_array_library(call, array, "expand_dims", place)
            array = (
                _call_array_library(call, array, "repeat", sizes[name], axis=place)
                if sizes[name] != 1
                else array
            )
    if any(len(group) != 1 for group in right):
        joined = [count_entries(tuple(sizes[name] for name in group)) for group in right]
        array = _call_array_library(call, array, "reshape", _sizes_as_values(joined))
    return array


def _reduce_dimensions(call: Call, array: Layout, places: tuple[int, ...]) -> Layout:
    reduction = call.argument_at(2, "reduction")
    known = isinstance(reduction, str) and reduction in ("min", "max", "sum", "mean", "prod", "any", "all")
    found = _call_array_library(
        call, array, reduction if known and isinstance(reduction, str) else "sum", places
    )
    return found if known else replace(found, dtype=None)


@register_function("einops einsum", "einops.einops einsum")
def einsum_words(call: Call) -> Value:
    """Einstein summation, whose dimensions have words for names."""
    *tensors, pattern = call.args or (Unknown("nothing"),)
    names = dict.fromkeys(re.findall(r"\w+", pattern)) if isinstance(pattern, str) else {}
    arrays = [layout_as_array(one) for one in tensors]
    if not isinstance(pattern, str) or not arrays or call.open or len(names) > 26 or "." in pattern or "(" in pattern:
        return _call_array_library(call, arrays[0] if arrays else Layout(), "transpose").with_shape(None)
    letters = dict(zip(names, "abcdefghijklmnopqrstuvwxyz", strict=False))
    short = re.sub(r"\w+", lambda match: letters[match[0]], pattern).replace(" ", "")
    home = "numpy" if all(one.host for one in arrays) else "jax.numpy"
    return call.interpreter.call_value(Library(f"{home}.einsum"), (short, *arrays), {}, call.place)
