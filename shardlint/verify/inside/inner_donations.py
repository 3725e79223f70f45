"""Donations inside a plain function, independent of any jit around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from shardlint.verify.inside import tree


def donated_inside(function: Any, args: Sequence[Any]) -> set[int]:
    """The ids of the arrays of `args` that a plain function donates: those it hands, as they are, to a jit of its own
    that does. A jit around it would donate whatever it is told to, and say nothing of the function.
    """
    leaves, treedef = jax.tree_util.tree_flatten(list(args))
    places = [at for at, leaf in enumerate(leaves) if tree.is_array(leaf) or tree.is_abstract(leaf)]

    def arrays_only(*arrays: Any) -> list[Any]:
        whole = list(leaves)
        for at, array in zip(places, arrays, strict=True):
            whole[at] = array
        out = function(*jax.tree_util.tree_unflatten(treedef, whole))
        return [leaf for leaf in jax.tree_util.tree_leaves(out) if tree.is_array(leaf)]

    jaxpr = jax.make_jaxpr(arrays_only)(*(leaves[at] for at in places)).jaxpr
    given = {
        id(variable)
        for equation in jaxpr.eqns
        for variable, donated in zip(equation.invars, equation.params.get("donated_invars", ()), strict=False)
        if donated
    }
    return {
        id(leaves[at]) for at, variable in zip(places, jaxpr.invars, strict=True) if id(variable) in given
    }
