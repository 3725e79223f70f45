"""Mistakes of `shard_map`, `pmap`, collectives, keys and processes, put into code that is right."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mutated import SPECS, Change, Operator, Text, calls, name


def _gradients(text: Text) -> Iterator[Change]:
    """`grads = jax.lax.pmean(grads, axis)` becomes `grads = grads`."""
    for node in ast.walk(text.tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Call):
            target, call = text.of(node.targets[0]), node.value
            reduces = name(call.func) in ("pmean", "psum") and call.args and "grad" in target.lower()
            if reduces and text.of(call.args[0]) == target:
                yield node.lineno, *text.span(call), target


def _keys(text: Text) -> Iterator[Change]:
    """`jax.random.fold_in(key, jax.lax.axis_index(axis))` becomes `key`."""
    for call in calls(text, "fold_in"):
        if len(call.args) == 2 and "axis_index" in text.of(call.args[1]):
            yield call.lineno, *text.span(call), text.of(call.args[0])


def _declared(text: Text) -> Iterator[Change]:
    """`out_specs=P("data")` of a shard_map becomes `out_specs=P()`."""
    for call in calls(text, "shard_map"):
        for keyword in call.keywords:
            spec = keyword.value
            if keyword.arg == "out_specs" and isinstance(spec, ast.Call) and name(spec.func) in SPECS and spec.args:
                yield spec.lineno, *text.span(spec), f"{text.of(spec.func)}()"


OPERATORS = {
    "gradients not averaged": Operator((b"grad",), _gradients),
    "one key for all devices": Operator((b"fold_in", b"axis_index"), _keys),
    "declared replicated": Operator((b"out_specs",), _declared),
}
