"""Optax optimizers, and what becomes of their state."""

from __future__ import annotations

import ast

from shardlint.model.values import CallResult, Place, Value, options
from shardlint.rules_api.site import Site

# Optimizers and transforms whose state holds an array as large as each parameter. `sgd` does with momentum only.
_KEEPING = frozenset(
    f"optax.{name}"
    for name in (
        "adabelief adadelta adagrad adam adamax adamaxw adamw adan amsgrad lamb lion nadam nadamw novograd "
        "radam rmsprop yogi ema trace scale_by_adam scale_by_adan scale_by_adamax scale_by_amsgrad "
        "scale_by_belief scale_by_lion scale_by_novograd scale_by_radam scale_by_rms scale_by_rss "
        "scale_by_stddev scale_by_yogi apply_every"
    ).split()
)
_AROUND = ("optax.chain", "optax.named_chain", "optax.apply_if_finite", "optax.MultiSteps")


def keeps_state(site: Site, value: Value, depth: int = 0) -> bool | None:
    """Return whether a value is an optimizer whose state is as large as the parameters; None where it may be one."""
    answers = {_keeps_arrays(site, option, depth) for option in options(value)}
    return answers.pop() if len(answers) == 1 else (None if answers - {False} else False)


def _keeps_arrays(site: Site, value: Value, depth: int) -> bool | None:
    if (
        not isinstance(value, CallResult)
        or value.call is None
        or not value.api.startswith("optax.")
        or depth > 4
    ):
        return False
    if value.api in _KEEPING:
        return True
    if value.api == "optax.sgd":
        momentum = value.call.argument_for("momentum", ("learning_rate", "momentum"))
        return None if value.call.open_keywords else momentum is not None
    if value.api in _AROUND:
        inner = [
            site.program.evaluator.value(place, value.call.environment) for place in value.call.positional
        ]
        return True if any(keeps_state(site, one, depth + 1) for one in inner) else None
    return None


def is_init_of_large_state(site: Site, place: Place) -> bool | None:
    """Return whether an expression is the `init` of an optimizer with such a state; None where it may be one."""
    node = place.node
    if not isinstance(node, ast.Attribute) or node.attr != "init":
        return False
    return keeps_state(site, site.program.evaluator.value(Place(place.file, node.value)))
