"""SL419."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.reach import lookup
from shardlint.model.signatures import Jitted, jitted, numbers
from shardlint.model.values import ClassValue, Constant, Items, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Uses, Violates
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint_rules.shard_map._one_of import one_of
from shardlint_rules.shard_map.per_device import CALLED, PMAP, called_from_elsewhere, pmapped_calls

_SEVERAL = regex(r"(?:process|host)_count\(\)\s*(?:==|<=|>|!=)\s*1")
_NUMBERS = ("int", "float", "bool")
# Bases whose makers call no method of their own accord that is not theirs.
_PLAIN = ("builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing.NamedTuple")
_NUMBER = "`{}` is a number: the pmapped call raises ValueError, since a number has no dimension to split."
_SPLITS = "pmap splits each argument along its first dimension"
_HELP = "add its position to static_broadcasted_argnums, or write None for it in in_axes"


class PmapUnmappedArgument(Rule):
    """A pmapped function gets an argument without a leading device dimension.

    A Python number raises ValueError at the call. A single key or copy raises with more than one device. One entry
    runs on one device, and raises on several processes with more than one device each.

    ## Reports
    Arguments that `in_axes` splits over the devices and that are not static:

    - proven: a literal number, and an array or leaf of a tree that has no dimension.
    - proven: an array with several rows for each device, or with other rows than another argument.
    - `on-a-way` (likely): such an argument on a branch that may not run, or with an option at its default.
    - `number` (likely): a variable that an annotation, a flag or `int()` makes a number.
    - `key` (likely): a single random key.
    - `unreplicated` (likely): a result of `unreplicate`, also of the previous loop iteration.
    - `one-entry` (likely): an array of one entry (`jnp.asarray([x])`) in code for several processes.

    ## Write instead
    `static_broadcasted_argnums`, `in_axes=None` or `functools.partial` for settings;
    `[x] * jax.local_device_count()` for one entry on each device.
    """

    code = "SL419"
    name = "pmap-unmapped-argument"
    harm = Harm.CRASH
    likely = ("one-entry", "number", "key", "unreplicated", "on-a-way")
    assumptions: ClassVar[Mapping[str, str]] = {
        "on-a-way": "The branch runs, and options keep their defaults.",
        "one-entry": "A host has more than one device.",
        "number": "The annotation or flag is right.",
        "key": "The program runs on more than one device.",
        "unreplicated": "The program runs on more than one device.",
    }
    triggers = (Calls(PMAP), Uses(PMAP), CALLED, Violates("pmap.unmapped", "pmap.sizes"))
    forms = ("call", "partial", "line", "name", "violation")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each argument."""
        if site.form == "violation":
            sizes = site.violation.kind == "pmap.sizes"
            yield self._report_sizes(site) if sizes else self._report_unmapped(site)
            return
        elsewhere = called_from_elsewhere(site) if site.form == "line" else None
        calls = pmapped_calls(site) if site.form != "line" else [elsewhere] if elsewhere is not None else []
        for call in calls:
            found = [
                jitted(one, site.program.evaluator, (PMAP,))
                for one in options(site.program.value(site.file, call.func))
            ]
            function = found[0] if len(found) == 1 else None
            if function is None or any(isinstance(one, ast.Starred) for one in call.args):
                continue
            given = [call.args[at] for at in _mapped(site, function, len(call.args))]
            numbers_given = [(one, why) for one in given if (why := _is_number(site, one))]
            if numbers_given:
                yield self._numbers(site, call, numbers_given)
            else:
                for one in given:
                    yield from self._argument(site, function, one)
                    yield from self._one_of(site, one)

    def _report_unmapped(self, site: Site) -> Finding:
        leaf = _name_array(site)
        return site.report_violation(
            f"The pmapped call raises ValueError: {leaf} has no dimension to split.",
            help="replicate it with `flax.jax_utils.replicate`, or write None for it in in_axes",
            why=_SPLITS,
        )

    def _report_sizes(self, site: Site) -> Finding:
        said, leaf = site.violation.said, _name_array(site)
        return site.report_violation(
            f"The pmapped call raises ValueError: {leaf} has `{said['size']}` rows to split, {said['other']}.",
            help="reshape the batch to (jax.local_device_count(), -1, ...)",
            why=_SPLITS,
        )

    def _argument(self, site: Site, function: Jitted, node: ast.expr) -> Iterator[Finding]:
        value = site.value(node)
        if isinstance(value, Constant) and isinstance(value.value, int | float):
            yield site.finding(node, _NUMBER.format(site.shown(node)), help=_HELP, why=_SPLITS)
        elif _one_entry(site, node) and "devices" not in function.settings.keywords and _several(site, node):
            yield site.finding(
                node,
                f"`{site.shown(node)}` has one entry: the pmapped call raises if a host has more than one device.",
                label="one entry for all devices",
                help="repeat it: jnp.asarray([x] * jax.local_device_count())",
                certainty=Certainty.POSSIBLE,
                form="one-entry",
                why="with several processes, pmap needs one entry for each local device",
            )

    def _one_of(self, site: Site, node: ast.expr) -> Iterator[Finding]:
        """One random key, or one copy of what was replicated."""
        form, at = one_of(site, node) or ("", 0)
        if not form:
            return
        key = form == "key"
        yield site.finding(
            node,
            f"`{site.shown(node)}` is {'one key' if key else 'one copy'}: the pmapped call raises with more than one "
            "device.",
            label="no device dimension",
            help="split it: jax.random.split(key, jax.local_device_count())"
            if key
            else "pass the replicated tree, and bind the single copy to another name",
            certainty=Certainty.POSSIBLE,
            form=form,
            why=f"line {at} makes it; {_SPLITS}",
        )

    def _numbers(self, site: Site, call: ast.Call, given: list[tuple[ast.expr, str]]) -> Finding:
        reasons = dict.fromkeys(why for _, why in given)
        return site.finding(
            site.syntax if site.form != "line" else call,
            _NUMBER.format(site.shown(given[0][0])),
            help=_HELP,
            certainty=Certainty.POSSIBLE,
            form="number",
            why="; ".join([f"line {call.lineno} passes it", *reasons, _SPLITS]),
        )


def _name_array(site: Site) -> str:
    """The argument of a broken contract, or its leaf, as a message names it."""
    path = site.violation.said["array"]
    return f"leaf `{path}`" if path else f"`{site.shown()}`"


def _mapped(site: Site, function: Jitted, count: int) -> Iterator[int]:
    """The positions that are split over the devices."""
    static = numbers(
        function.setting("static_broadcasted_argnums"), function.settings, site.program.evaluator
    )
    if static is None or function.settings.open_keywords or len(function.settings.positional) > 2:
        return
    axes = function.setting("in_axes")
    given = (
        site.program.evaluator.value(axes, function.settings.environment) if axes is not None else Constant(0)
    )
    for at in range(count):
        one = given
        if isinstance(given, Items):
            one = given.items[at] if at < len(given.items) and not given.open else Constant(None)
        if at not in static and at - count not in static and one == Constant(0):
            yield at


def _is_number(site: Site, node: ast.expr) -> str:
    """What says that an argument is a number of Python."""
    if not isinstance(node, ast.Name):
        return ""
    bindings, _ = lookup(site.file, node, node.id)
    if len(bindings) != 1:
        return ""
    binding = bindings[0]
    if isinstance(binding.annotation, ast.Name) and binding.annotation.id in _NUMBERS:
        if binding.kind == "param" and _for_a_library(site, node):
            return ""
        return f"`{node.id}` is annotated as {binding.annotation.id}"
    if binding.kind == "param":
        absl = rf"DEFINE_(?:integer|float|boolean|bool)\(\s*['\"]{node.id}['\"]"
        flag = rf"{absl}|['\"]--{node.id}['\"][^)]*type=(?:int|float)"
        if re.search(flag, site.file.source.text):
            return f"the flag `{node.id}` is a number"
    value = binding.value
    if binding.kind == "assign" and isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        if value.func.id in (*_NUMBERS, "len"):
            return f"`{value.func.id}()` returns it"
    return ""


def _for_a_library(site: Site, node: ast.Name) -> bool:
    """Whether a parameter is of a method that a library calls, for all one sees: what it gives is not what is written.

    jaxline's experiments say `global_step: int`, and are given an array with one entry for each device.
    """
    function = site.file.home(node).function()
    owner = function.parent.node if function is not None and function.parent is not None else None
    if function is None or not isinstance(owner, ast.ClassDef):
        return False
    bases = [one for base in owner.bases for one in options(site.value(base))]
    if all(isinstance(one, ClassValue) or getattr(one, "name", "") in _PLAIN for one in bases):
        return False
    method = function.node
    if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not any(one.kind == "called" for one in site.program.flow.in_sight(site.file, method).found)


def _one_entry(site: Site, node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        bindings, _ = lookup(site.file, node, node.id)
        if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None:
            return False
        node = bindings[0].value
    match node:
        case ast.Call(args=[ast.List(elts=[one]), *_]) if not isinstance(one, ast.Starred):
            return site.text(node.func).rpartition(".")[2] in ("asarray", "array")
    return False


def _several(site: Site, node: ast.expr) -> bool:
    """Whether the function asks for the number of processes."""
    scope = site.file.home(node).function()
    return scope is not None and _SEVERAL.search(site.text(scope.node)) is not None
