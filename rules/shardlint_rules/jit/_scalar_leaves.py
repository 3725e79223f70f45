"""Scalars in a tree: step counts of optimizers and train states, which no spec with an entry fits."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.shapes import shape_of, shape_of_value
from shardlint.model.values import (
    CallArguments,
    CallResult,
    ClassValue,
    Computed,
    Environment,
    Items,
    Leaves,
    Parameter,
    Place,
    Table,
    Value,
    options,
)
from shardlint.rules_api.site import Site

_DEPTH = 6
# Their states count the steps in a scalar.
_COUNTING = frozenset(
    f"optax.{name}"
    for name in (
        "adabelief adafactor adam adamax adamaxw adamw adan amsgrad lamb lion nadam nadamw novograd radam yogi "
        "scale_by_adam scale_by_adan scale_by_amsgrad scale_by_belief scale_by_lion scale_by_schedule MultiSteps"
    ).split()
)
_AROUND = ("optax.chain", "optax.named_chain", "optax.apply_if_finite", "optax.inject_hyperparams")
_STATES = ("flax.training.train_state.TrainState",)


def find_scalar_leaf(site: Site, place: Place) -> str | None:
    """A scalar in the tree that an expression is, also as callers pass it, in words."""
    value = site.program.evaluator.value(place)
    for one in (value, *_passed_by_callers(site, value)):
        scalar = find_scalar_in_value(site, one)
        if scalar is not None:
            return scalar
    return None


def find_scalar_in_value(site: Site, value: Value) -> str | None:
    """A scalar in a tree, in words."""
    return next(iter(_scalars_in_value(site, value, 0)), None)


def _passed_by_callers(site: Site, value: Value) -> Iterator[Value]:
    """The arguments that callers pass for a parameter."""
    for option in options(value):
        if isinstance(option, Parameter):
            yield from options(site.program.followed(option))
            yield from site.program.callers.visible_argument_values(option)


def _scalars_in_value(site: Site, value: Value, depth: int) -> Iterator[str]:
    """The scalars that a tree surely has, in words."""
    if depth > _DEPTH:
        return
    ways = options(value)
    if len(ways) > 1:
        each = [next(iter(_scalars_in_value(site, way, depth + 1)), None) for way in ways]
        yield from [found for found in each if found is not None][:1] if None not in each else ()
        return
    for option in ways:
        match option:
            case Items(items=items):
                for item in items:
                    yield from _scalar_leaves(site, item, "an item", depth)
            case Table(entries=entries):
                for key, item in entries:
                    yield from _scalar_leaves(site, item, f"`{key}`", depth)
            case Leaves(of=leaf):
                yield from _scalar_leaves(site, leaf, "a leaf", depth)
            case CallResult(by=ClassValue() as cls, call=CallArguments() as call):
                yield from _scalars_in_instance(site, cls, call, depth)
            case CallResult(api=str() as api) if api.startswith(_STATES):
                yield "its `step` is a scalar"
            case Computed(place=Place() as place, environment=env):
                yield from _scalars_in_optimizer_state(site, place, env)


def _scalar_leaves(site: Site, value: Value, name: str, depth: int) -> Iterator[str]:
    if isinstance(value, CallResult) and shape_of_value(site.program.evaluator, value) == ():
        yield f"{name} is a scalar"
    else:
        yield from _scalars_in_value(site, value, depth + 1)


def _scalars_in_instance(site: Site, cls: ClassValue, call: CallArguments, depth: int) -> Iterator[str]:
    """The scalars in the fields that the call of a class sets."""
    evaluator = site.program.evaluator
    names = list(evaluator.classes.objects.list_fields(cls))
    fields = [
        (names[at] if at < len(names) else "a field", place) for at, place in enumerate(call.positional)
    ]
    for name, place in (*fields, *call.keywords.items()):
        value = evaluator.value(place, call.environment)
        if isinstance(value, CallResult) and shape_of(evaluator, place, call.environment) == ():
            yield f"`{name}` is a scalar"
        else:
            yield from _scalars_in_value(site, value, depth + 1)


def _scalars_in_optimizer_state(site: Site, place: Place, env: Environment | None) -> Iterator[str]:
    """The scalar in what `tx.init(params)` of an optimizer that counts its steps gives."""
    node = place.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "init":
        receiver = site.program.evaluator.value(Place(place.file, node.func.value), env)
        if _is_counter(site, receiver, 0):
            yield "the optimizer counts its steps in a scalar"


def _is_counter(site: Site, value: Value, depth: int) -> bool:
    for one in options(value):
        if isinstance(one, CallResult) and one.call is not None and depth < _DEPTH:
            if one.api in _COUNTING:
                return True
            if one.api in _AROUND:
                inner = [
                    site.program.evaluator.value(place, one.call.environment) for place in one.call.positional
                ]
                if any(_is_counter(site, each, depth + 1) for each in inner):
                    return True
    return False
