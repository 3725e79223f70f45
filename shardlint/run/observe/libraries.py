"""Placements asked of libraries: flax's logical constraints and rules, its copies of pmap; equinox; haliax."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from . import first_runs, meshes, replicas, wrapper_arguments
from .event_sink import silence_errors, write_event
from .frames import find_discarding_line, is_user, line_of, user_stack
from .requested_placements import bytes_of
from .values import axes_in

_MOST = 1000
_mapped: set[str] = set()
_naming: dict[tuple[str, ...], list[Any]] = {}


def _follow_calls(module: Any, name: str, after: Callable[..., None]) -> Any:
    """Have `module.name` followed by `after(frame, result, *args, **kwargs)`; what it was, or None."""
    function = getattr(module, name, None)
    if function is None:
        return None

    @functools.wraps(function)
    def call_and_follow(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        silence_errors(after)(sys._getframe(1), result, *args, **kwargs)
        return result

    setattr(module, name, call_and_follow)
    return function, call_and_follow


def _watch_flax_spmd(module: Any) -> None:
    pairs = [
        _follow_calls(module, "with_logical_constraint", _note_logical_constraint),
        _follow_calls(module, "with_logical_partitioning", _note_naming),
        _follow_calls(module, "logical_to_mesh_axes", functools.partial(_note_logical_axes, module)),
        _follow_calls(module, "logical_to_mesh_sharding", functools.partial(_note_logical_shardings, module)),
    ]
    # Names that other modules of flax have taken before.
    for name, other in list(sys.modules.items()):
        if name.startswith("flax"):
            for old, new in filter(None, pairs):
                for key, value in list(vars(other).items()):
                    if value is old:
                        setattr(other, key, new)


def _watch_flax_linen(module: Any) -> None:
    spmd = sys.modules.get("flax.linen.spmd")
    for name in (
        "with_logical_constraint", "with_logical_partitioning", "logical_to_mesh_axes", "logical_to_mesh_sharding",
    ):  # fmt: skip
        if spmd is not None and hasattr(module, name):
            setattr(module, name, getattr(spmd, name))


def _note_logical_constraint(
    frame: Any, result: Any, x: Any, names: Any = None, *args: Any, **kwargs: Any
) -> None:
    line = find_discarding_line(frame)
    if line is not None and result is not x:
        write_event("discarded", name="nn.with_logical_constraint", line=line, what="", bytes=_tree_size(x))
    if result is not x:
        write_event("effect", lines=user_stack(1))
    elif names is not None and meshes.built and any(name is not None for name in names):
        lines = user_stack()
        if lines and kwargs.get("mesh") is None:
            write_event(
                "no-op",
                name="nn.with_logical_constraint",
                names=list(map(str, names)),
                lines=lines,
                bytes=_tree_size(x),
            )


def _note_naming(frame: Any, result: Any, function: Any, names: Any, *args: Any, **kwargs: Any) -> None:
    """Remember the first line that gives these names to the dimensions of an array."""
    _naming.setdefault(tuple(map(str, names)), user_stack())


def _note_logical_shardings(
    module: Any, frame: Any, result: Any, tree: Any, mesh: Any, rules: Any = None, *args: Any
) -> None:
    """Names of a whole tree that come to nothing, because there are no rules at all."""
    import jax

    if rules or module.get_logical_axis_rules() or mesh.size < 2:
        return
    names = {
        str(name)
        for spec in jax.tree_util.tree_leaves(
            tree, is_leaf=lambda one: isinstance(one, jax.sharding.PartitionSpec)
        )
        if isinstance(spec, jax.sharding.PartitionSpec)
        for part in spec
        for name in axes_in(part)
    }
    lines = user_stack()
    if lines and names and not names & set(map(str, mesh.axis_names)):
        write_event("logical", what="no-rules", name="", names=sorted(names), lines=lines)


def _note_logical_axes(module: Any, frame: Any, result: Any, names: Any, rules: Any = None) -> None:
    if names is None:
        return
    if rules is None:
        rules = module.get_logical_axis_rules()
    rules = [(key, value) for key, value in rules or ()]
    known = {key for key, _ in rules}
    # Rules that say None of some name are meant to list them all.
    lists_all = any(value is None for _, value in rules)
    lines, named = user_stack(), _naming.get(tuple(map(str, names)), [])
    parts = list(result) if result is not None else []
    for at, name in enumerate(names):
        if not isinstance(name, str) or not lines or not rules:
            continue
        if name not in known:
            if lists_all:
                write_event("logical", what="no-rule", name=name, names=list(map(str, names)), lines=lines, named=named)
            continue
        said = [value for key, value in rules if key == name]
        targets = [value for value in said if value is not None]
        if targets and said[0] is None:
            write_event(
                "logical",
                what="shadowed",
                name=name,
                names=list(map(str, names)),
                lines=lines,
                named=named,
                axis=str(targets[0]),
            )
            continue
        if (
            targets
            and at < len(parts)
            and parts[at] is None
            # Rules that list several axes for a name say what it is to have where the first is taken.
            and all(isinstance(value, str) for value in said)
        ):
            write_event(
                "logical",
                what="collide",
                name=name,
                names=list(map(str, names)),
                lines=lines,
                named=named,
                axis=str(targets[0]),
            )


def _flax_jax_utils(module: Any) -> None:
    _follow_calls(module, "unreplicate", _note_unreplicated)


def _note_unreplicated(frame: Any, result: Any, tree: Any, *args: Any, **kwargs: Any) -> None:
    import jax

    for path, one in jax.tree_util.tree_flatten_with_path(tree)[0][:200]:
        if hasattr(one, "addressable_shards") and jax.numpy.issubdtype(one.dtype, jax.numpy.floating):
            if replicas.do_rows_differ(jax, one):
                name = jax.tree_util.keystr(path)
                write_event(
                    "first-only",
                    name="unreplicate",
                    result=name,
                    shape=list(one.shape),
                    dtype=str(one.dtype),
                    lines=user_stack(),
                    made=first_runs.varying.get((tuple(one.shape), str(one.dtype)), []),
                )


def _watch_equinox(module: Any) -> None:
    _follow_calls(module, "filter_shard", _note_filter_shard)


def _note_filter_shard(frame: Any, result: Any, x: Any, *args: Any, **kwargs: Any) -> None:
    line = find_discarding_line(frame)
    if line is not None:
        write_event("discarded", name="eqx.filter_shard", line=line, what="", bytes=_tree_size(result))


def _watch_haliax(module: Any) -> None:
    for name in ("shard", "auto_sharded"):
        _follow_calls(module, name, functools.partial(_note_hax_shard, f"hax.{name}"))
    _follow_calls(module, "named_jit", _note_named_jit)
    partitioning = sys.modules["haliax.partitioning"]
    _follow_calls(partitioning, "pspec_for_axis", functools.partial(_note_mapped_axes, partitioning))
    if hasattr(partitioning, "_NamedJitWrapper"):
        wrapper_arguments.watch_calls(partitioning._NamedJitWrapper)


def _note_named_jit(frame: Any, result: Any, function: Any = None, *args: Any, **kwargs: Any) -> None:
    """`jax.jit` is called by haliax, each time the result is: the user's line is that of `named_jit`."""
    code = getattr(inspect.unwrap(function), "__code__", None) if function is not None else None
    if code is not None and is_user(frame.f_code.co_filename):
        defined = [code.co_filename, code.co_firstlineno, code.co_name]
        write_event("jitted", defined=defined, line=line_of(frame))


def _note_mapped_axes(module: Any, frame: Any, result: Any, axes: Any, mapping: Any = None) -> None:
    """The axes of an array that is sharded by a mapping of names; each of them once for a mapping."""
    mapping = mapping if mapping is not None else module.current_thread_local_mapping()
    each = axes.items() if isinstance(axes, dict) else axes if isinstance(axes, (tuple, list)) else (axes,)
    pairs = (one if isinstance(one, tuple) else (getattr(one, "name", one), getattr(one, "size", None)) for one in each)
    sizes = [[str(name), size] for name, size in pairs]
    rules = {str(name): axes_in(target) for name, target in (mapping or {}).items()}
    key = repr((rules, sizes))
    if rules and key not in _mapped and len(_mapped) < _MOST:
        _mapped.add(key)
        write_event("mapped", rules=rules, sizes=sizes, lines=user_stack(3))


def _note_hax_shard(name: str, frame: Any, result: Any, x: Any, *args: Any, **kwargs: Any) -> None:
    line = find_discarding_line(frame)
    if line is not None:
        write_event("discarded", name=name, line=line, what="", bytes=_tree_size(result))
    elif result is not x:
        write_event("effect", lines=user_stack(1))
    # What haliax asks for by itself it also asks where there is nothing to split, as while a batch is loaded.
    elif meshes.built and not str(frame.f_globals.get("__name__", "")).startswith("haliax."):
        write_event("no-op", name=name, names=[], lines=user_stack(), bytes=_tree_size(x))


def _tree_size(tree: Any) -> int:
    import jax

    return bytes_of(jax, tree)


INSTALLERS: dict[str, Callable[[Any], None]] = {
    "flax.linen.spmd": _watch_flax_spmd,
    "flax.linen": _watch_flax_linen,
    "flax.jax_utils": _flax_jax_utils,
    "flax.nnx.transforms.compilation": lambda module: wrapper_arguments.watch_calls(module.JitWrapped),
    "equinox": _watch_equinox,
    "equinox._jit": lambda module: wrapper_arguments.watch_calls(module._JitWrapper),
    "haliax": _watch_haliax,
}
