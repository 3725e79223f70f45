"""Shared code of SL210 to SL213 and SL222: entries of `in_shardings`, their arguments, and the visible calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.jit_settings import setting_positions
from shardlint.model.signatures import JITS, SHARDING_SETTINGS, Jitted, jitted_value
from shardlint.model.values import CallArguments, CallResult, Constant, Items, Place, Table, Value, options
from shardlint.rules_api.rule import Edit, Fix, Safety
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint.syntax.guards import expected_to_fail


@dataclass(frozen=True)
class SeenCall:
    """A call that surely runs what the site wraps. `arguments` include the self of a late-bound method's call."""

    file: FileFacts
    call: ast.Call
    function: Jitted
    arguments: CallArguments

    @property
    def count_positional(self) -> int | None:
        """How many arguments are given by position, self included; None where a star hides it."""
        return None if self.arguments.open_positional else len(self.arguments.positional) + self.function.late


def keyword_value(site: Site, function: Jitted, name: str) -> Value | None:
    """Return the argument of a keyword; None if there is none, or if it may be hidden."""
    place = function.setting_expression(name)
    if place is None or function.settings.open_keywords:
        return None
    return site.program.evaluator.value(place, function.settings.environment)


def keyword_tree(site: Site, function: Jitted, name: str) -> Value | None:
    """The same, with what `jax.tree.map` makes of a tree seen as a tree."""
    value = keyword_value(site, function, name)
    return site.program.evaluator.trees.expand_tree_map(value) if value is not None else None


def count_of(site: Site, function: Jitted, name: str) -> int | None:
    """How many entries a tuple or list of shardings has; None where it is no such thing or not told."""
    value = keyword_tree(site, function, name)
    return len(value.items) if isinstance(value, Items) and not value.open else None


def may_be_none(value: Value) -> bool | None:
    """Return whether a value may be None, so that nothing is requested; None if the text does not tell."""
    found = options(value)
    if any(option == Constant(None) for option in found):
        return True

    return False if all(isinstance(option, Items | CallResult | Table) for option in found) else None


@dataclass(frozen=True)
class Counts:
    """How many entries `in_shardings` may have: one for each argument given by position that is not static.

    `most` is None with `*args`. `static` are the positions that do not count.
    """

    least: int
    most: int | None
    static: frozenset[int]

    def is_count_accepted(self, count: int) -> bool:
        """Return whether a call with this number of entries is possible."""
        return self.least <= count and (self.most is None or count <= self.most)

    def is_accepted_with_static(self, count: int) -> bool:
        """Return whether the entries would fit without those at static positions."""
        counted = sum(1 for position in self.static if position < count)
        return bool(counted) and not self.is_count_accepted(count) and self.is_count_accepted(count - counted)


def counts_of_parameters(site: Site, function: Jitted) -> Counts | None:
    """How many entries a function's parameters ask for; None where the text does not tell."""
    parameters = function.parameters
    static = setting_positions(function, "static", site.program.evaluator)
    if parameters is None or static is None:
        return None
    least = sum(1 for position in range(parameters.required) if position not in static)
    most = sum(1 for position in range(len(parameters.positional)) if position not in static)
    return Counts(least, None if parameters.star else most, static)


def calls_of_wrapped(
    site: Site, apis: tuple[str, ...] = JITS, settings: tuple[str, ...] = SHARDING_SETTINGS
) -> Iterator[SeenCall]:
    """The calls of what the site wraps with one of `settings`, in this file and others, that run nothing else."""
    program, parent = site.program, site.file.parent(site.call)
    if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
        ends = program.flow.ends(site.file, parent)
    else:
        factory = site.form == "partial" or not site.arguments.positional
        applied = isinstance(parent, ast.Call) and parent.func is site.call
        outer = parent if factory and applied and parent is not None else site.call
        ends = program.flow.calls(Place(site.file, outer))
    for end in ends.found:
        file, call = end.place.file, end.place.node
        if end.kind != "called" or not isinstance(call, ast.Call) or expected_to_fail(file, call):
            continue
        found = [
            jitted_value(option, program.evaluator, apis)
            for option in options(program.value(file, call.func))
        ]
        mine = [one for one in found if one is not None and _are_settings_in_call(one, site, settings)]
        if mine and len(mine) == len(found):
            yield SeenCall(file, call, mine[0], program.evaluator.read_arguments(Place(file, call)))


def _are_settings_in_call(function: Jitted, site: Site, settings: tuple[str, ...]) -> bool:
    """Return whether the settings of a function are written in the site's call."""
    for name in settings:
        place = function.setting_expression(name)
        if place is not None and place.file is site.file:
            return site.file.parent(site.file.parent(place.node) or place.node) is site.call
    return False


def describe_function(function: Jitted) -> str:
    """The function, for messages."""
    node = function.parameters.node if function.parameters is not None else None
    return f"`{node.name}`" if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else "the function"


def format_count(count: int, what: str) -> str:
    """ "1 entry", "2 entries"."""
    plural = what[:-1] + "ies" if what.endswith("y") else what + "s"
    return f"{count} {what if count == 1 else plural}"


def make_positional_fix(site: Site, seen_call: SeenCall, keywords: list[ast.keyword], why: str) -> Fix | None:
    """The unsafe fix that gives keyword arguments of a call by position, where the definition tells their order."""
    parameters = seen_call.function.parameters
    first = seen_call.count_positional
    if parameters is None or parameters.star or first is None or seen_call.arguments.open_keywords:
        return None
    order = {name: index for index, name in enumerate(parameters.positional)}
    places = [order.get(one.arg or "") for one in keywords]
    expected = set(range(first, first + len(keywords)))
    if len(keywords) != len(seen_call.call.keywords) or {place for place in places if place is not None} != expected:
        return None
    by_place = {place: site.text(one.value) for place, one in zip(places, keywords, strict=True)}
    edits = []
    for index, one in enumerate(keywords):
        start, end = site.file.character_span(one)
        edits.append(Edit(start, end, by_place[first + index]))
    arguments = [site.text(argument) for argument in seen_call.call.args]
    arguments += [by_place[first + index] for index in range(len(keywords))]
    shown = " ".join(f"{site.text(seen_call.call.func)}({', '.join(arguments)})".split())
    return site.fix(Safety.UNSAFE, f"write: {shown}", edits, why)
