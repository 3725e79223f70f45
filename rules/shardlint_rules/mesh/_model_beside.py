"""Tables of partition rules that the class of a config gives, and the model of that config in the files beside it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts

_LEAST = 4
_WORD = regex(r"[A-Za-z_][A-Za-z_0-9]{2,}")
_LAYER = regex(r"\bself\.\w+\s*(?::[^=\n]+)?=\s*[\w.]+\(|\bname\s*=\s*[\"']|@(?:nn|linen)\.compact")
_NUMBER = regex(r"(?:^|/)(\w+)/(?:\\d\+?|\[0-9\]\+?|\(\\d\+\))/")
# Layers that are given numbers for names, in whatever way.
_COUNTED = regex(r"name\s*=\s*(?:str\(|f[\"'])|setattr\(|add_module\(")
_ONE_OBJECT = regex(r"(?:\w+\.)*[A-Z]\w*$")
_LISTS = regex(r"(?:List|Sequential|Dict|Stack|Repeat|Scan|Array)\w*$")


@dataclass(frozen=True)
class Unmade:
    """A rule that meets nothing: its pair, what is underlined of it, and why."""

    pair: ast.Tuple
    label: str
    why: str


def pairs_of(table: ast.expr) -> list[tuple[ast.Tuple, str]]:
    """The pairs of an expression and what a call gives, of a tuple or list of such."""
    elements = table.elts if isinstance(table, ast.Tuple | ast.List) else []
    return [
        (one, one.elts[0].value)
        for one in elements
        if isinstance(one, ast.Tuple) and len(one.elts) == 2
        if isinstance(one.elts[0], ast.Constant) and isinstance(one.elts[0].value, str)
        if isinstance(one.elts[1], ast.Call)
    ]


def steps(pattern: str, leaves: frozenset[str]) -> tuple[str, ...]:
    """The steps of a path that are written out, of which the last of all weights, as `kernel`, tell nothing."""
    found = [step for step in pattern.strip("^$").split("/") if step.isidentifier() and step not in leaves]
    return tuple(one for one in found if len(one) > 2)


def unmade(site: Site, table: ast.expr, leaves: frozenset[str]) -> Iterator[Unmade]:
    """The rules of a table that name a layer which the model beside it does not have, or count what is one layer."""
    owner = next((one for one in site.file.ancestors(table) if isinstance(one, ast.ClassDef)), None)
    pairs = pairs_of(table)
    if owner is None or len(pairs) < _LEAST or not any("/" in pattern for _, pattern in pairs):
        return
    texts = list(_model(site, owner.name, table))
    if not texts:
        return
    told = "\n".join(texts)
    known = {step: _says(told, step) for _, pattern in pairs for step in steps(pattern, leaves)}
    seen: set[str] = set()
    for pair, pattern in pairs:
        own = steps(pattern, leaves)
        others = [
            one
            for _, each in pairs
            if each != pattern and (one := steps(each, leaves)) and not {*one} & {*own}
        ]
        right = [each for each in others if all(known[one] for one in each)]
        last = pattern.strip("^$").rpartition("/")[2]  # what a layer calls its weight
        missing = [one for one in own if not known[one] and one != last]
        if missing and len(right) >= _LEAST and len(right) * 4 >= len(others) * 3:
            # A layer that some models of the family have, as a head, has rules in all of them: that harms nothing.
            there = [
                one
                for one in _WORD.findall(pattern)
                if one not in (*leaves, *missing) and re.search(rf"\b{one}\b", told)
            ]
            if (
                not there
                or missing[0] in seen
                or any(_says(text, missing[0]) for text in _imported(site, owner.name))
            ):
                continue
            seen.add(missing[0])
            yield Unmade(
                pair,
                f"the model of `{owner.name}` has nothing called `{missing[0]}`",
                f"the files of the model have `{there[0]}`, and name what {len(right)} other rules speak of",
            )
            continue
        number = _NUMBER.search(pattern)
        if number is not None and _one_object(told, number[1]) and not _COUNTED.search(told):
            yield Unmade(
                pair,
                f"`{number[1]}` is one layer, and has no numbered parts",
                f"the model makes `self.{number[1]}` as one object, and no list of it",
            )


def _says(text: str, word: str) -> bool:
    stem = re.sub(r"_?\d+$", "", word) or word
    return re.search(rf"\b{re.escape(stem)}(?:\b|_|\d)", text) is not None


def _one_object(text: str, name: str) -> bool:
    """Whether everything that is kept as `self.NAME` is what a call of one class gives."""
    made = re.findall(rf"\bself\.{re.escape(name)}\s*(?::[^=\n]+)?=(?!=)\s*([\w.]*)(.?)", text)
    listed = re.search(
        rf"\bself\.{re.escape(name)}\s*(?:\.append|\[|\+=)|\bin (?:enumerate\()?self\.{re.escape(name)}\b",
        text,
    )
    return (
        bool(made)
        and not listed
        and all(
            after == "(" and _ONE_OBJECT.match(called) and not _LISTS.search(called) for called, after in made
        )
    )


def _model(site: Site, config: str, table: ast.expr) -> Iterator[str]:
    """The texts of the files beside the table's that name the class and make layers, and its own without the table."""
    for file in _files(site, config):
        text = file.source.text
        if file is site.file:
            start, end = file.span(table)
            text = text[:start] + text[end:]
        if _LAYER.search(text) and (file is not site.file or "nn.Module" in text):
            yield text


def _files(site: Site, config: str) -> Iterator[FileFacts]:
    for file in site.program.project.holding(site.file.path, (config,), joined=True):
        if file is not None and file.path.parent == site.file.path.parent:
            yield file


def _imported(site: Site, config: str) -> Iterator[str]:
    """The texts of the project's files of which those of the model import something: layers may come from there."""
    project = site.program.project
    for file in _files(site, config):
        for one in file.statements_beginning(r"from\b", ("from",)):
            if not isinstance(one, ast.ImportFrom):
                continue
            module = one.module or ""
            path = file.path
            found = project.relative(path, one.level, module) if one.level else project.resolve(module, path)
            facts = project.facts(found) if found is not None and found != site.file.path else None
            if facts is not None:
                yield facts.source.text
