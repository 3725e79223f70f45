"""Compiling a function and reading what the compiler decided: output shardings and which donated
buffers it reuses.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from shardlint.verify.inside import tree
from shardlint.verify.paths import path_text
from shardlint.verify.report import PLAIN


class NoShardings(Exception):
    """A compiled object that does not say where its outputs lie."""


@dataclass(frozen=True)
class Donated:
    """A donated array. `aliased` None: the compiler's answer could not be told for this array alone."""

    leaf: tree.Leaf
    given: bool
    aliased: bool | None


@dataclass(frozen=True)
class Compiled:
    """What was compiled, what comes out of it, and what became of the donated arrays."""

    how: str
    outputs: list[tree.Leaf]
    donated: list[Donated]
    alias_bytes: int
    text: Callable[[], str]
    executable: Any = None
    """jax's own compiled object, for its memory and text."""


def can_lower(function: Any) -> bool:
    """Whether a function is a jit that can be compiled without being run."""
    return callable(getattr(function, "lower", None))


def is_equinox(jitted: Any) -> bool:
    """Whether a jit, or what it compiled, is `equinox.filter_jit`'s."""
    return type(jitted).__module__.startswith("equinox")


def takes_abstract(function: Any, args: Sequence[Any]) -> bool:
    """Whether `compile_function` can do with arrays that have only a shape: `jax.jit` can, its
    wrappers cannot.
    """
    if can_lower(function):
        return type(function).__module__.startswith("jax")
    return _only_arrays(args)


def compile_function(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], donate: Sequence[int]
) -> Compiled:
    """Compile `function(*args, **kwargs)` and read the result.

    A function without `.lower` is wrapped: in `jax.jit`, or in `equinox.filter_jit` where an
    argument holds anything that is not an array. Raises `NoShardings` for a jit that does not tell
    its output shardings, and whatever lowering and compiling raise.
    """
    how, lowered, order = _lower(function, args, kwargs, donate)
    compiled = lowered.compile()
    inner = getattr(compiled, "compiled", compiled)
    outputs = _outputs(lowered, compiled)
    donated = _donations(getattr(lowered, "lowered", lowered), compiled, inner, order, donate)
    memory = inner.memory_analysis()
    return Compiled(
        how, outputs, donated, int(getattr(memory, "alias_size_in_bytes", 0) or 0), lowered.as_text, inner
    )


@dataclass(frozen=True)
class _Order:
    """The call as it was lowered, and the argument (index into the fixture's args) of each positional one."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arrays: dict[int, list[tuple[tree.Leaf, Any]]]


def _lower(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], donate: Sequence[int]
) -> tuple[str, Any, _Order]:
    arrays = {index: _leaves_with_values(value, f"args[{index}]") for index, value in enumerate(args)}
    if can_lower(function):
        how = "equinox.filter_jit" if is_equinox(function) else "jit"
        lowered = function.lower(*args, **kwargs)
        return f"compiled as it is ({how})", lowered, _Order(tuple(args), dict(kwargs), arrays)
    bound = functools.partial(function, **kwargs) if kwargs else function
    if _only_arrays(args):
        lowered = jax.jit(bound, donate_argnums=tuple(donate)).lower(*args)
        return f"{PLAIN}, wrapped in jax.jit", lowered, _Order(tuple(args), {}, arrays)
    import equinox

    # filter_jit donates all arguments but the first, or none: so the kept ones go first, as one.
    def split(kept: dict[int, Any], given: dict[int, Any]) -> Any:
        both = {**kept, **given}
        return bound(*(both[index] for index in range(len(args))))

    kept = {index: value for index, value in enumerate(args) if index not in donate}
    given = {index: value for index, value in enumerate(args) if index in donate}
    jitted = equinox.filter_jit(split, donate="all-except-first" if donate else "none")
    lowered = jitted.lower(kept, given)
    return (
        f"{PLAIN}, wrapped in equinox.filter_jit",
        lowered,
        _Order((kept, given), {}, arrays),
    )


def _only_arrays(args: Sequence[Any]) -> bool:
    return all(
        tree.is_array(leaf) or tree.is_abstract(leaf) for leaf in jax.tree_util.tree_leaves(list(args))
    )


def _leaves_with_values(value: Any, name: str) -> list[tuple[tree.Leaf, Any]]:
    return [
        (tree.Leaf(path, name + where, tuple(leaf.shape), leaf.dtype, getattr(leaf, "sharding", None)), leaf)
        for path, where, leaf in tree.flatten(value)
        if tree.is_array(leaf) or tree.is_abstract(leaf)
    ]


def _outputs(lowered: Any, compiled: Any) -> list[tree.Leaf]:
    inner = getattr(compiled, "compiled", compiled)
    missing: Any = object()  # None is what a function without outputs has here
    info = getattr(getattr(lowered, "lowered", lowered), "out_info", missing)
    shardings = getattr(inner, "output_shardings", missing)
    if info is missing or shardings is missing:
        raise NoShardings(
            f"{type(compiled).__module__}.{type(compiled).__name__} does not name its output shardings"
        )
    if inner is not compiled:
        # filter_jit compiles a function that returns (a marker, the arrays in the user's own tree, the rest);
        # other wrappers (nnx.jit) rearrange their outputs so that no path of the user's is left.
        if not (is_equinox(compiled) and isinstance(info, tuple) and len(info) == 3):
            raise NoShardings(
                f"{type(compiled).__module__} does not tell which output lies where before it is run"
            )
        info, shardings = info[1], shardings[1]
    leaves, treedef = jax.tree_util.tree_flatten_with_path(info)
    return [
        tree.Leaf(path_text(keys), "out" + jax.tree_util.keystr(keys), tuple(out.shape), out.dtype, sharding)
        for (keys, out), sharding in zip(leaves, treedef.flatten_up_to(shardings), strict=True)
    ]


def _donations(
    lowered: Any, compiled: Any, inner: Any, order: _Order, donate: Sequence[int]
) -> list[Donated]:
    """What became of each array in the donated arguments."""
    if not donate:
        return []
    wanted = [pair for index in donate for pair in order.arrays[index]]
    info, treedef = jax.tree_util.tree_flatten(lowered.args_info)
    # An argument the program never uses is dropped; jax then lists no sharding for it.
    kept = [sharding is not None for sharding in treedef.flatten_up_to(inner.input_shardings)]
    aliased = aliased_parameters(inner.as_text())
    flat = _flat_order(compiled, order, len(info))
    if flat is None:
        given = any(argument.donated for argument in info)
        return [Donated(leaf, given, None) for leaf, _ in wanted]
    found = []
    for leaf, value in wanted:
        index = next((place for place, other in enumerate(flat) if other is value), None)
        if index is None:
            found.append(Donated(leaf, False, False))
            continue
        parameter = sum(kept[:index])
        found.append(Donated(leaf, bool(info[index].donated), kept[index] and parameter in aliased))
    return found


def _flat_order(compiled: Any, order: _Order, count: int) -> list[Any] | None:
    """The array objects of the call in the order the compiled function takes them, or None where that
    is not known.
    """
    if hasattr(compiled, "preprocess") and hasattr(compiled, "info"):
        # equinox sorts arguments by whether they are donated; its own preparation says in what order.
        flat = jax.tree_util.tree_leaves(compiled.preprocess(compiled.info, order.args, order.kwargs))
    else:
        flat = jax.tree_util.tree_leaves((order.args, order.kwargs))
        if len(flat) != count:  # static arguments are no parameters
            flat = [leaf for leaf in flat if tree.is_array(leaf) or tree.is_abstract(leaf)]
    return flat if len(flat) == count else None


def aliased_parameters(hlo: str) -> set[int]:
    """The parameters of a compiled module whose buffers an output reuses, from its header."""
    header = hlo.split("\n", 1)[0]
    start = header.find("input_output_alias={")
    if start < 0:
        return set()
    # Entries look like `{0}: (3, {}, may-alias)`; the list ends where its own brace closes.
    return {
        int(number)
        for number in re.findall(r"\}: \((\d+), \{[\d, ]*\}, (?:may|must)-alias\)", header[start:])
    }


_FLOATS = re.compile(r"\b(?:[\dx?]*x)?(f8\w*|bf16|f16|f32)>")
_COARSENESS = {"f8": "float8", "bf16": "bfloat16", "f16": "float16", "f32": "float32"}


def lowest_float(stablehlo: str) -> str:
    """The coarsest float type a lowered program computes in, as a numpy name; `float64` when there is
    none coarser.
    """
    found = {"f8" if name.startswith("f8") else name for name in _FLOATS.findall(stablehlo)}
    return next((long for short, long in _COARSENESS.items() if short in found), "float64")
