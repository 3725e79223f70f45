"""Shardings in a dict that the text of the call does not spell out: they are taken out of it before the call.

    in_shardings = kwargs.pop("in_shardings", None)

Where the dict is used elsewhere, out of a copy of it.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.facts.shardings import literal_leaves
from shardlint.model.signatures import SHARDING_SETTINGS
from shardlint.model.values import Constant, Items, Place, Table, Unknown, options
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint_rules.equinox._shardings_inside.given_shardings import (
    Given,
    Parted,
    SingleSharding,
    bind_to_name,
    expressions_in_shardings,
    read_given_shardings,
    refuse_explicit,
)
from shardlint_rules.equinox.before_call import (
    check_place,
    choose_free_names,
    copy_dict_text,
    is_local_dict,
    uses_single_quotes,
)
from shardlint_rules.equinox.call_text import ShortenedCall, cut_keywords
from shardlint_rules.equinox.keyword_dicts import Entry, is_none, may_have_hidden_keys, read_dict_entries
from shardlint_rules.equinox.later_changes import changed_later
from shardlint_rules.equinox.wrapped_functions import NotRewritten

if TYPE_CHECKING:
    from shardlint_rules.equinox._shardings_inside.given_shardings import RequestedShardings


@dataclass(frozen=True)
class TakenOut:
    """The statements that take them out, what they give, and the call without them."""

    lines: list[str]
    inputs: Given
    outputs: Given
    rest: ShortenedCall


def take_shardings_out(site: Site) -> TakenOut:
    """How the shardings leave the dict. Raises `NotRewritten`."""
    opened = [keyword for keyword in site.call.keywords if keyword.arg is None]
    held = {keyword: read_dict_entries(site, keyword.value, SHARDING_SETTINGS) for keyword in opened}
    keyword = next(one for one in opened if held[one])
    text = site.text(keyword.value)
    direct = {name: one for name in SHARDING_SETTINGS if (one := site.keyword(name)) is not None}
    entries = held[keyword]
    if set(direct) & set(entries) or sum(1 for one in opened if held[one]) > 1 or site.form != "call":
        raise NotRewritten(
            f"line {site.call.lineno} passes shardings next to `**{text}`, and the dict may contain shardings too"
        )
    check_place(site)
    if not direct and may_have_hidden_keys(site, site.file, keyword.value):
        unknown = Entry(Unknown(), False, Place(site.file, keyword))
        entries = {name: entries.get(name, unknown) for name in SHARDING_SETTINGS}
    for name, entry in entries.items():
        _check_dict_entry(site, name, entry)
    own = is_local_dict(site, keyword.value)
    found = choose_free_names(site, [*entries, "options"])
    variable = text if own else found[-1]
    names = dict(zip(entries, found, strict=False))
    quote = "'" if uses_single_quotes(site) else '"'
    lines, asked = _statements_beside_dict(site, direct)
    lines += [] if own else [f"{variable} = {copy_dict_text(site, keyword.value)}"]
    for name, entry in entries.items():
        sure = entry.surely and not is_none(entry)
        default = "" if entry.surely else ", None"
        lines.append(f"{names[name]} = {variable}.pop({quote}{name}{quote}{default})")
        parted = Parted.spelled_at(site) if _holds_none(entry) else None
        whole = SingleSharding(names[name], False, None, parted=parted)
        asked[name] = whole if sure else SingleSharding.make_optional(names[name], False, None, parted=parted)
    return TakenOut(
        lines,
        asked.get("in_shardings"),
        asked.get("out_shardings"),
        cut_keywords(site, set(direct.values()), {keyword: f"**{variable}"}),
    )


def _statements_beside_dict(site: Site, direct: dict[str, ast.keyword]) -> tuple[list[str], dict[str, Given]]:
    """Statements for the shardings that are given beside the dict, and what they ask for."""
    asked = {
        name: read_given_shardings(site, one.value, inputs=name == "in_shardings")
        for name, one in direct.items()
    }
    inputs, outputs = (asked.get(name) for name in SHARDING_SETTINGS)
    lines, inputs, outputs = named_shardings(site, inputs, outputs)
    return lines, {"in_shardings": inputs, "out_shardings": outputs}


def _holds_none(entry: Entry) -> bool:
    """Return whether a tree of shardings has None in it."""
    trees = [option for option in options(entry.value) if isinstance(option, Items | Table)]
    return any(Constant(None) in literal_leaves(tree) for tree in trees)


def name_shardings(site: Site, requested: RequestedShardings) -> tuple[list[str], RequestedShardings]:
    """Statements that give the shardings names, and what is asked for in their terms. Raises `NotRewritten`."""
    check_place(site)
    for source in (*expressions_in_shardings(requested.inputs), *expressions_in_shardings(requested.outputs)):
        change = changed_later(site, source)
        if change is not None and not change.copied:
            raise NotRewritten(change.reason)
    lines, inputs, outputs = named_shardings(site, requested.inputs, requested.outputs)
    return lines, replace(requested, inputs=inputs, outputs=outputs)


def named_shardings(site: Site, inputs: Given, outputs: Given) -> tuple[list[str], Given, Given]:
    """Statements that give shardings names, and the shardings in their terms. Raises `NotRewritten`."""
    names = dict(zip(SHARDING_SETTINGS, choose_free_names(site, list(SHARDING_SETTINGS)), strict=True))
    lines: list[str] = []
    found: list[Given] = []
    for name, one in zip(SHARDING_SETTINGS, (inputs, outputs), strict=True):
        if one is None or (isinstance(one, SingleSharding) and one.when and not isinstance(one.source, ast.Call)):
            found.append(one)
            continue
        value, given_there = bind_to_name(site, one, names[name])
        lines.append(f"{names[name]} = {value}")
        found.append(given_there)
    return lines, found[0], found[1]


def _check_dict_entry(site: Site, name: str, entry: Entry) -> None:
    """Raise `NotRewritten` if an entry of the dict is a value that filter_shard does not take."""
    for option in options(entry.value):
        if isinstance(option, Items) and option.kind != "tuple":
            raise NotRewritten(
                f"{name}, put into the dict at line {entry.place.line}, is a {option.kind}; a tuple "
                "is expected"
            )
        refuse_explicit(site, option)


def insert_lines_above(site: Site, line: int, lines: list[str]) -> list[Edit]:
    """Statements above the decorated definition that begins on a line."""
    source = site.file.source
    start = source.line_starts[line - 1]
    indent = source.line_text(line)[: len(source.line_text(line)) - len(source.line_text(line).lstrip())]
    gap = "\n" if indent else "\n\n"
    return [Edit(start, start, "".join(f"{indent}{one}\n" for one in lines) + gap)]
