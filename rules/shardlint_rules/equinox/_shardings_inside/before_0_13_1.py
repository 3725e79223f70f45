"""Handling of shardings by filter_jit up to equinox 0.13.0, which passed them to a jit of its own.

That inner jit takes two arguments, the arrays that are donated and those that are not, and returns three: a
marker of rank 0, the result, and what is not an array. Shardings were matched with these and not with the
user's.
"""

from __future__ import annotations

import ast

from shardlint.facts.shardings import is_sharding, is_spec
from shardlint.model.values import Constant, Items, Place, Table, Unknown, Value, options
from shardlint.rules_api.rule import Certainty, Harm
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.equinox.wrapped_functions import donate_mode


@dataclass(frozen=True)
class Outcome:
    """The effect of one keyword: `message` is a sentence about `{keyword}` without its period."""

    message: str
    harm: Harm
    certainty: Certainty = Certainty.PROVEN
    why: str = ""

    def format_message(self, keyword: str) -> str:
        """The message about a keyword."""
        return self.message.replace("{keyword}", keyword)


_NOTHING = Outcome("`{keyword}` has no effect", Harm.REMOVED, Certainty.POSSIBLE)
_REPLICATES = Outcome("`{keyword}` replicates every array", Harm.REMOVED, Certainty.POSSIBLE)


def outcome_of_inputs(site: Site, place: Place) -> Outcome:
    """Return the effect of in_shardings."""
    value = site.program.evaluator.value(place)
    if value == Constant(None):
        return _NOTHING
    if _has_if_array(place):
        return Outcome("`{keyword}` raises TypeError: `if_array` is not a sharding", Harm.CRASH)
    if isinstance(value, Table) or (isinstance(value, Items) and not value.open and len(value.items) != 2):
        return Outcome(
            "`{keyword}` raises ValueError at the call: the inner jit of `filter_jit` has two arguments", Harm.CRASH
        )
    if isinstance(value, Items) and not value.open:
        if any(isinstance(item, Items | Table) for item in value.items):
            message = "`{keyword}` raises ValueError at the call: the inner jit of `filter_jit` takes dicts"
            return Outcome(message, Harm.CRASH)
        return _outcome_for_pair(site, place, value)
    if all(is_replicated(site, option) for option in options(value)):
        return _REPLICATES
    message = "`{keyword}` applies to every array of every argument, including weights"
    return Outcome(message, Harm.SILENT, Certainty.POSSIBLE, "a scalar array raises")


def _outcome_for_pair(site: Site, place: Place, value: Items) -> Outcome:
    first, second = _pair_texts(place, value)
    mode = donate_mode(site)
    if first == second or (value.items[0] == value.items[1] and not isinstance(value.items[0], Unknown)):
        message = f"`{{keyword}}` applies {first} to every array of every argument"
        return Outcome(message, Harm.SILENT, Certainty.POSSIBLE)
    if mode == "none":
        message = f"`{{keyword}}` applies {second} to every array and ignores {first}"
    elif mode in ("all", "warn"):
        message = f"`{{keyword}}` applies {first} to every array and ignores {second}"
    elif mode is not None and mode.endswith("-except-first"):
        message = f"`{{keyword}}` is swapped: the first argument gets {second}, the other arguments {first}"
    else:
        message = f"`{{keyword}}` applies {first} to donated arrays and {second} to all other arrays"
    donation = f'donate="{mode}"' if mode not in (None, "none") else "no `donate`" if mode else "unknown `donate`"
    why = f"the inner jit of filter_jit takes two arguments, the donated arrays and all other arrays; here: {donation}"
    return Outcome(message, Harm.SILENT, why=why)


def outcome_of_outputs(site: Site, place: Place) -> Outcome:
    """Return the effect of out_shardings."""
    value = site.program.evaluator.value(place)
    if value == Constant(None):
        return _NOTHING
    if _has_if_array(place):
        return Outcome("`{keyword}` raises TypeError: `if_array` is not a sharding", Harm.CRASH)
    raises = "`{keyword}` raises ValueError at the call: "
    if isinstance(value, Items) and not value.open:
        if value.kind != "tuple" or len(value.items) != 3:
            return Outcome(raises + "the inner jit of `filter_jit` returns three values", Harm.CRASH)
        if has_sharding_entries(site, value.items[0]):
            return Outcome(raises + "its first entry applies to a scalar", Harm.CRASH)
        return Outcome("`{keyword}` applies its second entry to every result and ignores the others", Harm.SILENT)
    if isinstance(value, Table):
        return Outcome(raises + "the inner jit of `filter_jit` returns a tuple", Harm.CRASH)
    found = options(value)
    if all(is_replicated(site, option) for option in found):
        return _REPLICATES
    certainty = (
        Certainty.PROVEN
        if all(has_sharding_entries(site, option) for option in found)
        else Certainty.POSSIBLE
    )
    return Outcome(raises + "it also applies to an internal scalar", Harm.CRASH, certainty)


def _pair_texts(place: Place, value: Items) -> tuple[str, str]:
    node = place.node
    if isinstance(node, ast.Tuple | ast.List) and len(node.elts) == 2:
        return f"`{place.file.source_text(node.elts[0])}`", f"`{place.file.source_text(node.elts[1])}`"
    return f"`{place.source_text()}[0]`", f"`{place.source_text()}[1]`"


def _has_if_array(place: Place) -> bool:
    """Return whether `if_array(...)` is written in place of a sharding."""
    return any(
        getattr(part, "id", getattr(part, "attr", "")) == "if_array"
        for part in walk_nodes(place.node)
        if isinstance(part, ast.Name | ast.Attribute)
    )


def is_replicated(site: Site, value: Value) -> bool:
    """Return whether a value is surely a sharding over no axis."""
    return _is_sharding_with_axes(site, value) is False


def has_sharding_entries(site: Site, value: Value) -> bool:
    """Return whether a value is surely a sharding that has entries, which no array of rank 0 can take."""
    return _is_sharding_with_axes(site, value) is True


def _is_sharding_with_axes(site: Site, value: Value) -> bool | None:
    if not is_sharding(value) and not is_spec(value):
        return None
    parts = site.sharding_parts(value)
    spec = site.spec_of(parts[1] if parts is not None else value)
    if spec is None or (spec.open and not spec.entries):
        return None
    if not spec.entries:
        return False
    return True if any(entry.axes for entry in spec.entries) else None
