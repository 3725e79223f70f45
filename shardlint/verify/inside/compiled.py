"""Compiling a function and reading what the compiler decided: output shardings and which donated
buffers it reuses.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from shardlint.verify.inside import program_cache, tree
from shardlint.verify.inside.inner_donations import donated_inside
from shardlint.verify.inside.partitioned import Partitioned, compile_lowered
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
class ArgumentArray:
    """An array of the arguments: which parameter of the compiled program it is (None: not known, or dropped
    because it is not used), whether it was donated, and whether an output reuses its buffer (None: not known).
    """

    leaf: tree.Leaf
    argument: int
    parameter: int | None
    given: bool
    aliased: bool | None


@dataclass(frozen=True)
class Compiled:
    """A compiled program, its inputs and outputs, and the fate of the donated arrays.

    `first_output` is the place of the first of `outputs` among all results of the compiled program.
    """

    how: str
    outputs: list[tree.Leaf]
    donates: Sequence[int]
    """The arguments that were to be donated."""
    donated: list[Donated]
    alias_bytes: int
    text: Callable[[], str]
    executable: Any = None
    """jax's own compiled object, for its memory and text."""
    taken: list[ArgumentArray] = field(default_factory=list)
    first_output: int = 0
    untold: str = ""
    """Why nothing is known of the outputs; "" where they are."""
    dumped: Partitioned | None = None
    is_jit: bool = True
    """Whether it was compiled as it is, and not wrapped to be compiled."""


def can_lower(function: Any) -> bool:
    """Return whether a function is a jit that can be compiled without running it."""
    return callable(getattr(function, "lower", None))


def is_equinox(jitted: Any) -> bool:
    """Return whether a jit, or its compiled program, is that of `equinox.filter_jit`."""
    return type(jitted).__module__.startswith("equinox")


def is_haliax(jitted: Any) -> bool:
    """Return whether a jit is `haliax.named_jit`'s."""
    return type(jitted).__module__.startswith("haliax")


def takes_abstract(function: Any, args: Sequence[Any]) -> bool:
    """Return whether `compile_function` works with arrays that have only a shape. `jax.jit` does, its wrappers do
    not.
    """
    if can_lower(function):
        return type(function).__module__.startswith("jax")
    return _are_all_arrays(args)


def compile_function(
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    donate: Sequence[int],
    tolerant: bool = False,
) -> Compiled:
    """Compile `function(*args, **kwargs)` and read the result.

    A function without `.lower` is wrapped: in `jax.jit`, or in `equinox.filter_jit` where an
    argument holds anything that is not an array. Raises `NoShardings` for a jit that does not tell
    its output shardings (unless `tolerant`: then there are no outputs), and whatever lowering and
    compiling raise.
    """
    how, lowered, order = _lower_function(function, args, kwargs, donate)
    dumped = compile_lowered(lowered, devices=program_cache.devices_of([args, kwargs]))
    compiled = dumped.compiled
    inner = getattr(compiled, "compiled", compiled)
    untold = ""
    try:
        outputs, first = _output_leaves(lowered, compiled, is_haliax(function))
    except NoShardings as error:
        if not tolerant:
            raise
        outputs, first, untold = [], 0, str(error)
    final = dumped.final or inner.as_text()
    taken = _fates_of_arrays(
        getattr(lowered, "lowered", lowered), compiled, inner, order, aliased_parameters(final)
    )
    donated = [Donated(one.leaf, one.given, one.aliased) for one in taken if one.argument in donate]
    memory = inner.memory_analysis()
    alias_bytes = int(getattr(memory, "alias_size_in_bytes", 0) or 0)
    return Compiled(
        how,
        outputs,
        donate,
        donated,
        alias_bytes,
        lowered.as_text,
        inner,
        taken,
        first,
        untold,
        dumped,
        order.own is None,
    )


@dataclass(frozen=True)
class _Order:
    """The call as it was lowered, and the argument (index into the fixture's args) of each positional one."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arrays: dict[int, list[tuple[tree.Leaf, Any]]]
    own: set[int] | None = None
    """Of a function that was wrapped, the ids of the arrays that it donates itself."""


def _lower_function(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], donate: Sequence[int]
) -> tuple[str, Any, _Order]:
    arrays = {index: _leaves_with_values(value, f"args[{index}]") for index, value in enumerate(args)}
    if can_lower(function):
        how = "equinox.filter_jit" if is_equinox(function) else "jit"
        lowered = function.lower(*args, **kwargs)
        order = _Order(tuple(args), dict(kwargs), arrays)
        if is_haliax(function):
            how, order = "haliax.named_jit", _named_order(lowered, order)
        return f"compiled as it is ({how})", lowered, order
    bound = functools.partial(function, **kwargs) if kwargs else function
    own = donated_inside(bound, args) if donate else set()
    if _are_all_arrays(args):
        lowered = jax.jit(bound, donate_argnums=tuple(donate)).lower(*args)
        return f"{PLAIN}, wrapped in jax.jit", lowered, _Order(tuple(args), {}, arrays, own)
    import equinox

    # filter_jit donates all arguments but the first, or none: so the kept ones go first, as one.
    def split_arguments(kept: dict[int, Any], given: dict[int, Any]) -> Any:
        both = {**kept, **given}
        return bound(*(both[index] for index in range(len(args))))

    kept = {index: value for index, value in enumerate(args) if index not in donate}
    given = {index: value for index, value in enumerate(args) if index in donate}
    jitted = equinox.filter_jit(split_arguments, donate="all-except-first" if donate else "none")
    lowered = jitted.lower(kept, given)
    return (
        f"{PLAIN}, wrapped in equinox.filter_jit",
        lowered,
        _Order((kept, given), {}, arrays, own),
    )


def _named_order(lowered: Any, order: _Order) -> _Order:
    """The call as haliax.named_jit makes it: of a function, its arguments donated, those kept, and what is static.
    Each of the first two holds what arrays the function itself has, and then (args, kwargs), without the others'.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path((order.args, order.kwargs))
    given = dict(leaves)
    taken, _ = jax.tree_util.tree_flatten_with_path(lowered.args_info)
    return _Order(tuple(given.get(keys[3:], _OWN) for keys, _ in taken), {}, order.arrays)


# An array that is the function's own.
_OWN = object()


def _are_all_arrays(args: Sequence[Any]) -> bool:
    return all(
        tree.is_array(leaf) or tree.is_abstract(leaf) for leaf in jax.tree_util.tree_leaves(list(args))
    )


def _leaves_with_values(value: Any, name: str) -> list[tuple[tree.Leaf, Any]]:
    return [
        (tree.Leaf(path, name + where, tuple(leaf.shape), leaf.dtype, getattr(leaf, "sharding", None)), leaf)
        for path, where, leaf in tree.flatten_tree(value)
        if tree.is_array(leaf) or tree.is_abstract(leaf)
    ]


def _output_leaves(lowered: Any, compiled: Any, named: bool) -> tuple[list[tree.Leaf], int]:
    """The output leaves, and how many results of the compiled program come before them. `named`: of a
    haliax.named_jit.
    """
    inner = getattr(compiled, "compiled", compiled)
    first = 0
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
                f"{type(compiled).__module__} does not report the shardings of its outputs before it runs"
            )
        first = len(jax.tree_util.tree_leaves(info[0]))
        info, shardings = info[1], shardings[1]
    elif named and isinstance(info, tuple) and len(info) == 2:
        # (the arrays in the user's own tree, the rest)
        info, shardings = info[0], shardings[0]
    leaves, treedef = jax.tree_util.tree_flatten_with_path(info)
    outputs = [
        tree.Leaf(path_text(keys), "out" + jax.tree_util.keystr(keys), tuple(out.shape), out.dtype, sharding)
        for (keys, out), sharding in zip(leaves, treedef.flatten_up_to(shardings), strict=True)
    ]
    return outputs, first


def _fates_of_arrays(
    lowered: Any, compiled: Any, inner: Any, order: _Order, aliased: set[int]
) -> list[ArgumentArray]:
    """Return the fate of each array in the arguments."""
    wanted = [(index, leaf, value) for index, pairs in order.arrays.items() for leaf, value in pairs]
    info, treedef = jax.tree_util.tree_flatten(lowered.args_info)
    # An argument the program never uses is dropped; jax then lists no sharding for it.
    kept = [sharding is not None for sharding in treedef.flatten_up_to(inner.input_shardings)]
    flat = _flat_order(compiled, order, len(info))
    if flat is None:
        given = any(argument.donated for argument in info)
        return [
            ArgumentArray(leaf, index, None, given and _is_own_value(order, value), None)
            for index, leaf, value in wanted
        ]
    places = {id(value): place for place, value in reversed(list(enumerate(flat)))}
    numbers = [count - 1 for count in itertools.accumulate(kept)]
    found = []
    for index, leaf, value in wanted:
        place = places.get(id(value))
        if place is None:
            found.append(ArgumentArray(leaf, index, None, False, False))
            continue
        parameter = numbers[place] if kept[place] else None
        given = bool(info[place].donated) and _is_own_value(order, value)
        found.append(ArgumentArray(leaf, index, parameter, given, parameter in aliased))
    return found


def _is_own_value(order: _Order, value: Any) -> bool:
    return order.own is None or id(value) in order.own


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
