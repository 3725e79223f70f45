"""Contracts of the arguments of what shard_map maps: a tuple of in_specs has one entry for each of them.

Facts of jax, each tried: another number of arguments, or a dict with other keys than that of its specs, raises
ValueError at the call; nothing raises before.
"""

from __future__ import annotations

import ast

from shardlint.layouts.values import (
    Call,
    DictValue,
    FunctionValue,
    ListValue,
    Method,
    Partial,
    Transformed,
    Unknown,
    Value,
    known_items,
    map_tree,
    tree_children,
)
from shardlint.libraries.jax_sharding import place_of
from shardlint.model.values import Place


def specs_place(call: Call) -> Place:
    """Where in_specs are written: in another file, the call of this one that gives them."""
    run, found = call.interpreter, place_of(call, 2, "in_specs")
    led = [one for one in run.calls if one.file is run.file]
    if found.file is run.file or not led:
        return found
    keywords = getattr(led[-1].node, "keywords", ())
    return next((Place(run.file, one.value) for one in keywords if one.arg == "in_specs"), led[-1])


def check_arguments(call: Call, value: Value, in_specs: Value, where: Place) -> bool:
    """Record in_specs that fit neither the function nor the call of what was mapped; whether they may fit."""
    specs = known_items(in_specs)
    if specs is None or call.open:
        return True
    takes, at = _describe_accepted(value, len(specs)), where
    said = f"`in_specs` has length {len(specs)} for {takes}" if takes else ""
    if not said and not call.keywords and len(call.args) != len(specs):
        said, at = f"`in_specs` has length {len(specs)} for {spell_count(len(call.args), 'argument')}", call.place
    for one, spec in zip(call.args, specs, strict=False) if not said else ():
        said, at = _mismatch_of_keys(one, spec), where
        if said:
            break
    if said:
        call.interpreter.record_violation("specs.arguments", at, mismatch=said)
    return not said


def check_axes(call: Call, value: Value, in_axes: Value, static: int, where: Place) -> None:
    """Record a tuple of `in_axes` of pmap that does not fit a call, or the function; `static` arguments need no entry.

    A caller that is not in sight may give arguments by name, which have no entries.
    """
    run, count = call.interpreter, len(in_axes) if isinstance(in_axes, tuple) else 0
    accepted = _accepted_counts(value)
    said, form, least, most = "", "", *(accepted or (0, None))
    if isinstance(in_axes, ListValue):
        said = "it is a list, and pmap takes a tuple"
    elif not isinstance(in_axes, tuple) or call.open:
        return
    elif most is not None and count > most:
        said = f"it has length {count} for {spell_count(most, 'argument')}"
    elif run.rooted or run.calls:
        if not len(call.args) - static <= count <= len(call.args):
            said, where = f"it has length {count} for {spell_count(len(call.args), 'argument')}", call.place
    elif count < least - static:
        said, form = f"it has length {count} for at least {spell_count(least, 'argument')}", "too-few"
    if said:
        run.record_violation("axes.arguments", where, mismatch=said, form=form)


def spell_count(count: int, what: str) -> str:
    """A number of things in words: "1 argument", "2 arguments"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def _describe_accepted(value: Value, count: int) -> str:
    """How many arguments a function takes, in words; "" where it may take so many."""
    least, most = _accepted_counts(value) or (0, None)
    if least <= count and (most is None or count <= most):
        return ""
    takes = f"at least {spell_count(least, 'argument')}" if most is None else spell_count(most, "argument")
    return takes if most in (None, least) else f"{least} to {takes}"


def _accepted_counts(value: Value) -> tuple[int, int | None] | None:
    """How many positional arguments a function takes, at least and at most; None of one that is not in sight."""
    bound, keywords = 0, set[str]()
    while isinstance(value, Partial | Method | Transformed):
        bound += len(value.args) if isinstance(value, Partial) else isinstance(value, Method)
        keywords |= value.keywords.keys() if isinstance(value, Partial) else set()
        value = value.function
    if not isinstance(value, FunctionValue):
        return None
    names = value.positional_parameters
    optional = len(value.node.args.defaults)
    free = names[bound:]
    named = next((place for place, name in enumerate(free) if name in keywords), None)
    needed = [name for name in names[bound : len(names) - optional] if name not in keywords]
    if named is not None:
        return len(needed), named
    return len(needed), None if value.node.args.vararg is not None else len(free)


def _mismatch_of_keys(argument: Value, spec: Value) -> str:
    """That a dict of specs has other keys than its argument, in words."""
    if not isinstance(argument, DictValue) or not isinstance(spec, DictValue) or argument.open or spec.open:
        return ""
    other = argument.entries.keys() ^ spec.entries.keys()
    return f"the keys of a dict differ ({', '.join(sorted(map(repr, other)))})" if other else ""


def with_structure(argument: Value, spec: Value) -> Value:
    """An argument of which nothing is known as a tree like its specs."""
    if not isinstance(argument, Unknown) or tree_children(spec) is None:
        return argument
    return map_tree(lambda _: argument, spec)


def declare_keys(parts: tuple[Value, ...], call: Call, in_specs: Value, where: Place) -> None:
    """Note of dicts of which only the specs tell the keys where these are written: to read another one raises."""
    specs = known_items(in_specs) or ()
    for part, one, spec in zip(parts, call.args, specs, strict=False):
        if isinstance(one, Unknown) and isinstance(spec, DictValue) and isinstance(part, DictValue):
            part.declared = where if spec.entries and not spec.open else None


def unpacked_count(call: Call, mapped_at: Place) -> int | None:
    """How many names a call of what was mapped at a place is unpacked into, as in `a, b = mapped(x)`; or None."""
    node, file = call.place.node, call.place.file
    called = call.interpreter.layouts.get(node.func) if isinstance(node, ast.Call) else None
    while isinstance(called, Transformed) and called.name == "jit":
        called = called.function
    parent = file.parent(node)
    if getattr(called, "place", None) != mapped_at or not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return None
    targets = getattr(parent.targets[0], "elts", None)
    return None if targets is None or any(isinstance(one, ast.Starred) for one in targets) else len(targets)
