"""flax NNX: optimizers, `eval_shape`, and what else changes Modules in place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from shardlint.layouts.layout import Layout
from shardlint.layouts.values import (
    AnyTree,
    Call,
    Instance,
    Library,
    State,
    Unknown,
    Value,
    item_of,
    map_tree,
    tree_children,
)
from shardlint.libraries.flax_boxes import find_mesh_of_flax
from shardlint.libraries.jax_transforms import make_tracer, run_traced
from shardlint.libraries.meeting import fresh_array
from shardlint.libraries.nnx_modules import take_state
from shardlint.libraries.nnx_objects import HOME, Object, Variable, copy_graph
from shardlint.libraries.nnx_variables import make_variable, report_no_mesh
from shardlint.libraries.registry import register_function

_PARAM = Library(f"{HOME}.Param")


@register_function(f"{HOME} Optimizer ModelAndOptimizer")
def make_optimizer(call: Call) -> Value:
    """A step, and the state that the transformation makes for the chosen Variables."""
    run = call.interpreter
    if call.open:
        return Unknown("an optimizer")
    model, tx, chosen = call.argument_at(0, "model"), call.argument_at(1, "tx"), call.argument_at(2, "wrt", _PARAM)
    held: Value = Unknown("the state of an optimizer")
    if isinstance(tx, Instance) and "init" in tx.attributes:
        found = run.call_value(tx.attributes["init"], (take_state(call, model, (chosen,)),), {}, call.place)
        if find_mesh_of_flax(call) is None and any(one.placed for one in _variables_in_tree(found)):
            report_no_mesh(call)
        held = copy_graph(run, found, partial(_as_opt_state, call))
    plain = replace(call, args=(), keywords={})
    step = make_variable(plain, "OptState", fresh_array(call, (), "uint32"), {})
    parts = {"step": step, "opt_state": held, "tx": tx, "wrt": chosen}
    old = run.releases.get("flax", (99,)) < (0, 11)
    if old or call.function_name == "ModelAndOptimizer":
        parts["model"] = model
    return Object(None, parts, region=run.region, kind="Optimizer")


def _as_opt_state(call: Call, leaf: Variable | Layout) -> Value:
    """A Variable of an optimizer, as each array of its state becomes one."""
    if isinstance(leaf, Layout):
        return make_variable(replace(call, args=(), keywords={}), "OptArray", leaf, {})
    made = leaf.with_parts(dict(leaf.attributes))
    made.region = call.interpreter.region
    return made


def _variables_in_tree(tree: Value) -> Iterator[Variable]:
    if isinstance(tree, Variable):
        yield tree
    else:
        for _, part in tree_children(tree) or ():
            yield from _variables_in_tree(part)


@register_function(f"{HOME}.Optimizer update")
def run_step(call: Call) -> Value:
    """Writes new arrays into the chosen Variables and into its own: they are on the devices of those before."""
    run, held = call.interpreter, call.args[0]
    if not isinstance(held, Object) or call.open:
        run.forget_changed(call.args)
        return Unknown("updates")
    grads = call.args[-1] if len(call.args) > 1 else call.argument_at(-1, "grads", Unknown("gradients"))
    model = call.args[1] if len(call.args) > 2 else held.attributes.get("model", Unknown("a Module"))
    chosen = take_state(call, model, (held.attributes.get("wrt", _PARAM),))
    if isinstance(chosen, State):
        _update_params(call, chosen, grads)
    else:
        run.forget_changed((model,))
    run.forget_changed((held.attributes.get("step"),))
    if "opt_state" in held.attributes:
        run.write_attribute(held, "opt_state", map_tree(_leaf_after_step, held.attributes["opt_state"]))
    return Unknown("updates")


def _update_params(call: Call, params: State, grads: Value) -> None:
    """New arrays in the Variables of a state. Arrays of other devices raise."""
    run = call.interpreter
    for key, one in params.entries.items():
        grad = item_of(grads, key) if not isinstance(grads, AnyTree | Unknown) else Unknown("a gradient")
        if isinstance(one, State):
            _update_params(call, one, grad)
        elif isinstance(one, Variable):
            own = run.current_copy(one)
            given = grad.as_operand if isinstance(grad, Instance) else grad
            if isinstance(own.as_operand, Layout) and isinstance(given, Layout):
                run.call_value(Library("jax.numpy.add"), (own.as_operand, given), {}, call.place)
            run.write_attribute(own, "value", _leaf_after_step(own.as_operand))
        else:
            run.forget_changed((one,))


def _leaf_after_step(leaf: Value) -> Value:
    """An array after a step: its shape and type, its devices if it is committed to them, and an Explicit spec."""
    if not isinstance(leaf, Layout):
        return Unknown("the state of an optimizer")
    keeps = leaf.is_explicit
    return replace(
        leaf, spec=leaf.spec if keeps else None, mesh=leaf.mesh if keeps or leaf.committed else None,
        device=leaf.device if leaf.committed else None, committed=leaf.committed or None, varying=None, host=None,
        asked=None,
    )  # fmt: skip


@register_function(f"{HOME} eval_shape")
def eval_shape(call: Call) -> Value:
    """The result with descriptions in place of arrays."""
    if not call.args:
        return Unknown("a shape")
    run = call.interpreter
    found = run_traced(
        call,
        call.args[0],
        tuple(map_tree(make_tracer, one) for one in call.args[1:]),
        call.keywords,
        call.open,
    )

    def describe_part(leaf: Variable | Layout) -> Value:
        if isinstance(leaf, Layout):
            return Layout(leaf.shape, leaf.dtype)
        made = leaf.with_parts({"value": map_tree(_describe_leaf, leaf.as_operand)})
        made.region = run.region
        return made

    return copy_graph(run, found, describe_part)


def _describe_leaf(leaf: Value) -> Value:
    return Layout(leaf.shape, leaf.dtype) if isinstance(leaf, Layout) else Unknown("a description")
