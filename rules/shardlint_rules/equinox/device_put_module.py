"""SL103."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.equinox_modules import Instance, Leaf, Modules
from shardlint.model.values import (
    Api,
    CallResult,
    ClassValue,
    Constant,
    Function,
    Place,
    Transformed,
    Value,
    options,
)
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint_rules.equinox.placement import array_and_target, place_array_parts


class DevicePutModule(Rule):
    """`jax.device_put` gets an Equinox Module with leaves that are not arrays.

    `device_put` raises TypeError for a leaf that is a function or a string. It turns a number into an array without a
    warning. `eqx.filter_jit` then traces an int or bool: code that uses the value as a size or in an `if` raises. A
    float becomes a weight: `eqx.filter_grad` differentiates it.

    ## Reports
    - proven: `jax.device_put(module, ...)` of a Module with a function, a string or a number in a field that is not
      static. Examples: `eqx.nn.MLP` (activation functions), `eqx.nn.Dropout`, and project classes with such fields.
    - possible: `jax.device_put` of a Module, if shardlint does not know its class or the value of the field.

    ## Write instead
    Write `eqx.filter_shard`, which places only the arrays. It does not move arrays that are committed to other devices.
    To move such arrays, split the model with `eqx.partition(model, eqx.is_array)`, place the arrays with
    `jax.device_put`, and join them with `eqx.combine`.

    ## Fix
    Writes `filter_shard` if the code shows how the Module is created. Otherwise the fix splits the Module and places
    its arrays. Unsafe: the arrays move to the new sharding. Numbers stay numbers, and jit compiles again for each
    value.
    """

    code = "SL103"
    name = "device-put-module"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.11.5", "jax": ">=0.4.38"}
    triggers = (Calls("jax.device_put"),)
    where = "host"
    in_version_checks = False
    project = "equinox"
    fixes = "unsafe"

    @detector("call")
    def report_leaf(self, site: Site) -> Finding | None:
        """A Module that is placed, at the leaf that does most harm."""
        tree = site.argument("x")
        if tree is None:
            return None
        found = [
            (instance, leaf)
            for _, instance in site.program.find_room(Modules).modules_within(site.value(tree))
            for leaf in site.program.find_room(Modules).list_leaves(instance)
            if leaf.kind in ("function", "text", "number")
        ]
        if not found:
            return None
        instance, leaf = min(found, key=lambda one: (not _is_certain(*one), one[1].kind == "number"))
        silent = leaf.kind == "number"
        return site.finding(
            site.call.func,
            f"`device_put` turns the number `{leaf.path}` of `{instance.class_name}` into an array, and jit "
            f"then traces it."
            if silent
            else f"`device_put` of `{instance.class_name}` raises TypeError: its `{leaf.path}` is {_WORDS[leaf.kind]}.",
            help="write `eqx.filter_shard`, or split the Module with `eqx.partition` and place only its arrays",
            fix=self._write_fix(site, instance),
            harm=Harm.SILENT if silent else Harm.CRASH,
            certainty=Certainty.PROVEN if _is_certain(instance, leaf) else Certainty.POSSIBLE,
        )

    def _write_fix(self, site: Site, instance: Instance) -> Fix | None:
        parts = array_and_target(site, "x", "device")
        if parts is None:
            return None
        tree, target = parts
        if _is_fresh_module(site, tree, instance) and site.shardings.is_on_auto_mesh(site.value(target)):
            shard, imports = site.spell("equinox.filter_shard")
            text = f"{shard}({site.text(tree)}, {site.text(target)})"
            edits = list(imports)
        else:
            rewritten = place_array_parts(site, site.text(site.call.func), tree, target)
            if rewritten is None:
                return None
            text, edits = rewritten
        drops = (site.call.func.id,) if isinstance(site.call.func, ast.Name) else ()
        message = f"write: {' '.join(text.split())}"
        why = "the arrays move to the new sharding, and leaves that are not arrays stay unchanged"
        return site.fix(Safety.UNSAFE, message, [site.replace(site.call, text), *edits], why, drops)


_WORDS = {"function": "a function", "text": "a string"}


def _is_certain(instance: Instance, leaf: Leaf) -> bool:
    return instance.surely and leaf.sure


def _is_fresh_module(site: Site, tree: ast.expr, instance: Instance) -> bool:
    """Return whether the Module comes straight from its constructor and holds nothing that may be committed to a
    device.
    """
    value = site.value(tree)
    if not isinstance(value, CallResult) or value.by != instance.cls or value.call is None:
        return False
    given = (*value.call.positional, *value.call.keywords.values())
    hidden = value.call.open_positional or value.call.open_keywords
    return not hidden and all(_is_uncommitted(site, place) for place in given)


def _is_uncommitted(site: Site, place: Place) -> bool:
    """A key counts: what is drawn from it is new."""
    name = place.source_text().lower()
    if "key" in name or "rng" in name:
        return True
    found = options(site.program.evaluator.value(place))
    return all(
        isinstance(value, Constant | Function | Api | Transformed | ClassValue) or _makes_new_array(value)
        for value in found
    )


def _makes_new_array(value: Value) -> bool:
    """Return whether an array comes from a function that makes one."""
    return isinstance(value, CallResult) and value.api.startswith(
        ("jax.numpy.", "jax.random.", "jax.nn.initializers.")
    )
