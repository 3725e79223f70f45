"""Functions that are not modelled one by one, and code that is not in sight, in what shard_map and pmap run.

What they compute has no known shape, but it is known along which manual axes it differs.
"""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.layout import Figure, Layout
from shardlint.layouts.values import (
    AnyTree,
    Call,
    FunctionValue,
    Instance,
    Method,
    Native,
    Partial,
    Unknown,
    Value,
    tree_leaves,
)
from shardlint.libraries.draws import check_handed
from shardlint.libraries.meeting import common_properties, layout_as_array
from shardlint.libraries.optimizers import apply_gradient, gradients_of_tree, wrong_arrays_of_tree
from shardlint.libraries.registry import register_function


@register_function("jax.numpy.*", "jax.numpy.linalg.*", "jax.nn.*", "jax.scipy.special.*", "optax.*", "optax.losses.*")
def return_computed(call: Call) -> Value:
    """A function of a library that only computes: the result differs as its arguments do."""
    given = [leaf for one in (*call.args, *call.keywords.values()) for _, leaf in tree_leaves(one)]
    arrays = [layout_as_array(one) for one in given if isinstance(one, Layout | AnyTree | Unknown)]
    calls = any(isinstance(one, FunctionValue | Native | Partial | Method) for one in given)
    if not call.interpreter.axes or calls or not any(one.differs or one.varying for one in arrays):
        return call.interpreter.call_unknown(call.name, call.args, call.keywords, call.place)
    return AnyTree(Layout().varying_like(common_properties(arrays)))


@register_function("shardlint.unseen")
def compute_unseen(call: Call) -> Value:
    """Return the result of invisible code in a mapped body, which may reduce values that differ between devices."""
    check_handed(call)
    arrays = [
        leaf for _, leaf in tree_leaves((*call.args, *call.keywords.values())) if isinstance(leaf, Layout)
    ]
    axes = frozenset[str]().union(*(one.differs for one in arrays))
    events = call.interpreter.events
    if events is not None and (arrays or any(isinstance(one, Unknown | AnyTree) for one in call.args)):
        events.is_open = True  # it may communicate
    if not axes:
        return Unknown("what is called is not known")
    return AnyTree(Layout(figure=Figure("unseen", axes, call.place)))


@register_function("shardlint.method update apply_gradients replace")
def apply_unseen(call: Call) -> Value:
    """An optimizer or training state that is not seen, and is given gradients; None where it is given none."""
    if call.name == "replace":
        return Instance(None, dict(call.keywords), open=True) if call.keywords and call.interpreter.axes else None
    first = call.args[:1] if call.name == "update" else call.args  # what optax updates by comes first
    given = gradients_of_tree((*first, *call.keywords.values())) or wrong_arrays_of_tree(
        (*first, *call.keywords.values())
    )
    if not given:
        return None
    array = apply_gradient(call, given[0])
    made = Layout(varying=array.varying, differs=array.differs, figure=array.figure)
    updated = AnyTree(replace(made, statistic=array.statistic))
    return (updated, Unknown("the state of an optimizer")) if call.name == "update" else updated
