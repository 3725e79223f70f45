"""Trees of specs that are not those of the arguments: how many entries, which keys, of which argument."""

from __future__ import annotations

import re

from shardlint.run.raised.explanation import Explanation, callee
from shardlint.run.raised.recognition import Recognised
from shardlint.run.raised.record import Call
from shardlint.source.patterns import regex

_LENGTH = regex(
    r"got a tuple or list of length (?P<has>\d+) for an args tuple of length (?P<wants>\d+)"
    r"|subtree of type (?:tuple|list) of length (?P<has2>\d+), but the full pytree has a subtree of the same"
    r" type but of "
    r"length (?P<wants2>\d+)"
)
_AT = regex(
    r"at key path\n\s+(?P<of>pjit in_shardings|pjit out_shardings|shard_map in_specs|shard_map out_specs|pmap in_axes"
    r"|pmap out_axes|vmap in_axes|vmap out_axes|(?:\w+ )?tree)(?P<path>\S*)"
)
_TYPES = regex(
    r"has a subtree of type\s+<?(?:class )?'?(?P<has>[\w.]+)'?>?\s*\n?but at the same key path the full pytree has a "
    r"subtree of different type\s+<?(?:class )?'?(?P<wants>[\w.]+)"
)
_CHILDREN = regex(
    r"with (?P<has>\d+) child(?: keys|ren)?.*?same type but with (?P<wants>\d+) child"
    r"(?:.*?symmetric difference on key sets is\s+(?P<differ>[^\n]+))?",
    re.DOTALL,
)


def trees(found: Recognised) -> Explanation | None:
    """An entry too many or too few, another type, other keys."""
    message, call = found.error.message, found.error.call
    at = _AT.search(message)
    said = _LENGTH.search(message)
    what = (
        at["of"].rpartition(" ")[2]
        if at
        else "in_shardings"
        if "in_shardings" in message
        else "out_shardings"
    )
    path = at["path"] if at else ""
    if said is not None and what in ("in_shardings", "in_specs", "in_axes") and path in ("", "[0]"):
        return _entries(what, int(said["has"] or said["has2"]), int(said["wants"] or said["wants2"]), call)
    place = f"{what}{path}"
    subject = _argument(path, call) if what.startswith("in_") else f"what {callee(call)} returns"
    if said is not None:
        has, wants = said["has"] or said["has2"], said["wants"] or said["wants2"]
        return Explanation(f"{place} has {_entries_text(int(has))}, and {subject} has {wants} there")
    other = _CHILDREN.search(message)
    if other is not None:
        return Explanation(
            f"{place} and {subject} have different keys: {_keys(other['differ'])} only in one of them"
            if other["differ"]
            else f"{place} has {other['has']} entries, and {subject} has {other['wants']}",
            help="give both the same keys, or one sharding for all of it",
        )
    types = _TYPES.search(message)
    if types is not None and at is not None:
        return Explanation(
            f"{place} is a {_short(types['has'])}, but {subject} has a {_short(types['wants'])}",
            help="give it the tree structure of the argument, or one sharding for all of it"
            if what != "tree"
            else "",
        )
    return None


def _entries_text(count: int) -> str:
    return f"{count} entr{'y' if count == 1 else 'ies'}"


def _entries(what: str, has: int, wants: int, call: Call | None) -> Explanation:
    names = list(call.parameters) if call is not None else []
    static = len(call.arguments) - wants if call is not None and what == "in_shardings" else 0
    takes = f" (it takes {', '.join(names)})" if names and len(names) <= 12 else ""
    if static > 0 and has == wants + static:
        return Explanation(
            f"{what} of {callee(call)} has {_entries_text(has)} for {wants} arguments{takes}: static arguments "
            "take no entry",
            help=f"remove the entr{'y' if static == 1 else 'ies'} of the static argument{'' if static == 1 else 's'}",
            live=True,
        )
    return Explanation(
        f"{what} of {callee(call)} has {_entries_text(has)}, but the call passes {wants} "
        f"argument{'' if wants == 1 else 's'}{takes}",
        help="write one entry for each argument, in their order"
        + ("; for one argument write (spec,)" if wants == 1 else ""),
        live=bool(names),
    )


def _argument(path: str, call: Call | None) -> str:
    """The argument that a key path into the tuple of arguments means, as it is written in the call."""
    index = re.match(r"\[(\d+)\](.*)", path)
    if call is None or index is None or int(index[1]) >= len(call.arguments):
        return "the argument"
    return f"`{call.arguments[int(index[1])].text}{index[2]}`"


def _keys(text: str) -> str:
    return ", ".join(re.findall(r"\[([^\]]+)\]", text)[:6]) or text.strip()


def _short(name: str) -> str:
    return name.rpartition(".")[2]
