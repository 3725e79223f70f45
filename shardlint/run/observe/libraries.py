"""Placements asked of libraries: flax's logical constraints and rules, its copies of pmap; equinox; haliax."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from . import called, meshes, ran, replicas
from .frames import discarded, stack
from .placed import bytes_of
from .sink import quiet, write
from .values import axes_in


def _watch(module: Any, name: str, after: Callable[..., None]) -> Any:
    """Have `module.name` followed by `after(frame, result, *args, **kwargs)`; what it was, or None."""
    function = getattr(module, name, None)
    if function is None:
        return None

    @functools.wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        quiet(after)(sys._getframe(1), result, *args, **kwargs)
        return result

    setattr(module, name, watched)
    return function, watched


def _flax_spmd(module: Any) -> None:
    pairs = [
        _watch(module, "with_logical_constraint", _logical_constraint),
        _watch(module, "logical_to_mesh_axes", functools.partial(_logical_axes, module)),
        _watch(module, "logical_to_mesh_sharding", functools.partial(_logical_shardings, module)),
    ]
    # Names that other modules of flax have taken before.
    for name, other in list(sys.modules.items()):
        if name.startswith("flax"):
            for old, new in filter(None, pairs):
                for key, value in list(vars(other).items()):
                    if value is old:
                        setattr(other, key, new)


def _flax_linen(module: Any) -> None:
    spmd = sys.modules.get("flax.linen.spmd")
    for name in ("with_logical_constraint", "logical_to_mesh_axes", "logical_to_mesh_sharding"):
        if spmd is not None and hasattr(module, name):
            setattr(module, name, getattr(spmd, name))


def _logical_constraint(
    frame: Any, result: Any, x: Any, names: Any = None, *args: Any, **kwargs: Any
) -> None:
    line = discarded(frame)
    if line is not None and result is not x:
        write("discarded", name="nn.with_logical_constraint", line=line, what="", bytes=_size(x))
    if result is not x:
        write("effect", lines=stack(1))
    elif names is not None and meshes.built and any(name is not None for name in names):
        lines = stack()
        if lines and kwargs.get("mesh") is None:
            write(
                "no-op",
                name="nn.with_logical_constraint",
                names=list(map(str, names)),
                lines=lines,
                bytes=_size(x),
            )


def _logical_shardings(
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
    lines = stack()
    if lines and names and not names & set(map(str, mesh.axis_names)):
        write("logical", what="no-rules", name="", names=sorted(names), lines=lines)


def _logical_axes(module: Any, frame: Any, result: Any, names: Any, rules: Any = None) -> None:
    if names is None:
        return
    if rules is None:
        rules = module.get_logical_axis_rules()
    rules = [(key, value) for key, value in rules or ()]
    known = {key for key, _ in rules}
    # Rules that say None of some name are meant to list them all.
    lists_all = any(value is None for _, value in rules)
    lines = stack()
    parts = list(result) if result is not None else []
    for at, name in enumerate(names):
        if not isinstance(name, str) or not lines or not rules:
            continue
        if name not in known:
            if lists_all:
                write("logical", what="no-rule", name=name, names=list(map(str, names)), lines=lines)
            continue
        said = [value for key, value in rules if key == name]
        targets = [value for value in said if value is not None]
        if targets and said[0] is None:
            write(
                "logical",
                what="shadowed",
                name=name,
                names=list(map(str, names)),
                lines=lines,
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
            write(
                "logical",
                what="collide",
                name=name,
                names=list(map(str, names)),
                lines=lines,
                axis=str(targets[0]),
            )


def _flax_jax_utils(module: Any) -> None:
    _watch(module, "unreplicate", _unreplicated)


def _unreplicated(frame: Any, result: Any, tree: Any, *args: Any, **kwargs: Any) -> None:
    import jax

    for path, one in jax.tree_util.tree_flatten_with_path(tree)[0][:200]:
        if hasattr(one, "addressable_shards") and jax.numpy.issubdtype(one.dtype, jax.numpy.floating):
            if replicas.rows_differ(jax, one):
                name = jax.tree_util.keystr(path)
                write(
                    "first-only",
                    name="unreplicate",
                    result=name,
                    shape=list(one.shape),
                    dtype=str(one.dtype),
                    lines=stack(),
                    made=ran.varying.get((tuple(one.shape), str(one.dtype)), []),
                )


def _equinox(module: Any) -> None:
    _watch(module, "filter_shard", _filter_shard)


def _filter_shard(frame: Any, result: Any, x: Any, *args: Any, **kwargs: Any) -> None:
    line = discarded(frame)
    if line is not None:
        write("discarded", name="eqx.filter_shard", line=line, what="", bytes=_size(result))


def _haliax(module: Any) -> None:
    for name in ("shard", "auto_sharded"):
        _watch(module, name, functools.partial(_hax_shard, f"hax.{name}"))


def _hax_shard(name: str, frame: Any, result: Any, x: Any, *args: Any, **kwargs: Any) -> None:
    line = discarded(frame)
    if line is not None:
        write("discarded", name=name, line=line, what="", bytes=_size(result))
    elif result is not x:
        write("effect", lines=stack(1))
    # What haliax asks for by itself it also asks where there is nothing to split, as while a batch is loaded.
    elif meshes.built and not str(frame.f_globals.get("__name__", "")).startswith("haliax."):
        write("no-op", name=name, names=[], lines=stack(), bytes=_size(x))


def _size(tree: Any) -> int:
    import jax

    return bytes_of(jax, tree)


INSTALLERS: dict[str, Callable[[Any], None]] = {
    "flax.linen.spmd": _flax_spmd,
    "flax.linen": _flax_linen,
    "flax.jax_utils": _flax_jax_utils,
    "flax.nnx.transforms.compilation": lambda module: called.watch(module.JitWrapped),
    "equinox": _equinox,
    "equinox._jit": lambda module: called.watch(module._JitWrapper),
    "haliax": _haliax,
}
