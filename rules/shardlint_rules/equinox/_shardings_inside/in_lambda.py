"""Constraints written into a lambda: around each use of a parameter, and around the result."""

from __future__ import annotations

import ast

from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.equinox._shardings_inside.body import names_with_star
from shardlint_rules.equinox._shardings_inside.given_shardings import (
    Given,
    ShardingPerArgument,
    SingleSharding,
)
from shardlint_rules.equinox.wrapped_functions import NotRewritten, OutOfReach


def constrain_in_lambda(
    site: Site, function: ast.Lambda, names: list[str], spare: int, inputs: Given, outputs: Given
) -> tuple[list[Edit], list[str]]:
    """The edits, and what they write. Raises `NotRewritten`."""
    from shardlint.rules_api.imports import spell_name

    if any(isinstance(asked, SingleSharding) and asked.when for asked in (inputs, outputs)):
        raise OutOfReach(f"a sharding of the lambda at line {function.lineno} may be None")
    for asked in (inputs, outputs):
        if isinstance(asked, ShardingPerArgument):
            asked.refuse_optional()
        if asked is not None and asked.parted is not None:
            raise OutOfReach(f"a tree of shardings of the lambda at line {function.lineno} contains None")
    names, inputs = names_with_star(names, function.args.vararg, inputs)
    if any(name.startswith("*") for name in names):
        raise OutOfReach(
            f"`{names[-1]}` at line {function.lineno} takes some of the arguments with an entry"
        )
    shard, edits = spell_name(site.program, site.file, function, "equinox.filter_shard")
    made: dict[int, list[tuple[int, str]]] = {}
    for name, sharding in _shardings_by_name(names, spare, inputs):
        for use in _uses_of_name(site, function, name):
            start, end = site.file.character_span(use)
            made.setdefault(start, []).append((end, f"{shard}({name}, {sharding})"))
    body = site.text(function.body)
    begin, end = site.file.character_span(function.body)
    for start in sorted(made, reverse=True):
        for stop, written in made[start]:
            body = body[: start - begin] + written + body[stop - begin :]
    text = _result_sharding(function, outputs)
    if text is not None:
        bare = isinstance(function.body, ast.Tuple) and not body.startswith("(")
        body = f"{shard}({f'({body})' if bare else body}, {text})"
    if body == site.text(function.body):
        return [], []
    return [*edits, Edit(begin, end, body)], [body]


def _shardings_by_name(names: list[str], spare: int, asked: Given) -> list[tuple[str, str]]:
    if asked is None:
        return []
    if isinstance(asked, SingleSharding):
        if len(names) == 1 and not asked.surely:
            raise NotRewritten(f"`{asked.text}` may be a sharding or a tuple of one: write the tuple out")
        return [(name, asked.text) for name in names]
    if not len(names) - spare <= len(asked.texts) <= len(names):
        raise NotRewritten(
            f"in_shardings has {len(asked.texts)} entries and the lambda {len(names)} positional parameters"
        )
    return [(name, text) for name, text in zip(names, asked.texts, strict=False) if text is not None]


def _uses_of_name(site: Site, function: ast.Lambda, name: str) -> list[ast.Name]:
    scope = site.file.scope(function)
    found = []
    for part in walk_nodes(function.body):
        if isinstance(part, ast.Name) and part.id == name:
            if isinstance(part.ctx, ast.Store):
                raise NotRewritten(f"line {part.lineno} assigns `{name}` again in the lambda")
            if lookup_bindings(site.file, part, name)[1] is scope:
                found.append(part)
    return found


def _result_sharding(function: ast.Lambda, asked: Given) -> str | None:
    if asked is None:
        return None
    if isinstance(asked, SingleSharding):
        return asked.text
    assert isinstance(asked, ShardingPerArgument)
    if None in asked.texts or len(asked.texts) < 2:
        raise NotRewritten(
            f"the lambda at line {function.lineno} does not show which value belongs to which entry of "
            "out_shardings"
        )
    return f"({', '.join(text for text in asked.texts if text is not None)})"
