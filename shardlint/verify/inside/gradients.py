"""The gradients of a fixture's function: where they lie when nothing but the arguments says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from shardlint.verify.inside import tree
from shardlint.verify.inside.compiled import Compiled, compile_function
from shardlint.verify.paths import glob_matches, path_text


class NotScalar(Exception):
    """A function that has no gradients: what it returns is no scalar."""


def compile_gradients(
    function: Any, args: Sequence[Any], keywords: Mapping[str, Any], globs: Sequence[str]
) -> tuple[Compiled | None, list[tree.Leaf]]:
    """Compile `jax.jit(jax.grad(function))` with respect to every float array of the arguments that `globs`
    reach into.

    Returns what was compiled (None: there is no such argument) and the gradients, spelled as the
    arguments they belong to. Raises `NotScalar`, and whatever tracing and compiling raise.
    """
    leaves, treedef = jax.tree_util.tree_flatten_with_path(list(args))
    paths = [path_text(keys) for keys, _ in leaves]
    floats = [at for at, (_, leaf) in enumerate(leaves) if _is_float(leaf)]
    reached = {
        paths[at].split("/")[0] for at in floats if any(glob_matches(glob, paths[at]) for glob in globs)
    }
    wanted = [at for at in floats if paths[at].split("/")[0] in reached]
    others = [at for at, (_, leaf) in enumerate(leaves) if at not in set(wanted) and _is_array(leaf)]
    if not wanted:
        return None, [_gradient_leaf(paths[at], leaves[at], None) for at in floats]

    def scalar_loss(moving: list[Any], still: list[Any]) -> Any:
        values = [leaf for _, leaf in leaves]
        for at, value in zip([*wanted, *others], [*moving, *still], strict=True):
            values[at] = value
        result = function(*jax.tree_util.tree_unflatten(treedef, values), **keywords)
        loss = result[0] if isinstance(result, tuple) and result else result
        if not _is_float(loss) or np.shape(loss) != ():
            raise NotScalar("fn has no gradients: it returns no scalar, and no tuple that begins with one")
        return loss

    jitted = jax.jit(jax.grad(scalar_loss))
    given = [[leaves[at][1] for at in part] for part in (wanted, others)]
    found = compile_function(jitted, given, {}, ())
    outputs = [
        _gradient_leaf(paths[at], leaves[at], out.sharding)
        for at, out in zip(wanted, found.outputs, strict=True)
    ]
    # Arguments keep the names the fixture knows them by.
    taken = []
    for one in found.taken:
        at = (wanted, others)[one.argument][int(one.leaf.path)]
        where = f"args{jax.tree_util.keystr(leaves[at][0])}"
        path = paths[at].partition("/")
        taken.append(replace(one, argument=int(path[0]), leaf=replace(one.leaf, path=path[2], where=where)))
    return replace(found, taken=taken, outputs=outputs), outputs


def _gradient_leaf(path: str, found: tuple[Any, Any], sharding: Any) -> tree.Leaf:
    keys, leaf = found
    where = f"gradient of args{jax.tree_util.keystr(keys)}"
    return tree.Leaf(path, where, tuple(leaf.shape), leaf.dtype, sharding)


def _is_array(leaf: Any) -> bool:
    return tree.is_array(leaf) or tree.is_abstract(leaf)


def _is_float(leaf: Any) -> bool:
    if not (_is_array(leaf) or isinstance(leaf, jax.core.Tracer)) or tree.is_key(leaf.dtype):
        return False
    return bool(jax.dtypes.issubdtype(leaf.dtype, np.floating))
