"""A rule's page: what its docstring says, and the two programs of its proof as examples."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from shardlint.config.certainty import Certainty
from shardlint.rules_api.headers import header
from shardlint.rules_api.ledger import HEAD, entries, figures, table
from shardlint.rules_api.registry import proof_folders
from shardlint.rules_api.rule import Rule
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex

HEADINGS = ("What it does", "Why it hurts", "Example", "Use instead", "Fix safety", "Evidence")
"""The sections of a page, in this order. Where a rule has a proof, the examples come from it, and its docstring has no
section "Example"; what it says under "Use instead" follows the program."""
_EXAMPLE, _INSTEAD = HEADINGS[2:4]
_FIX = {
    "none": "none",
    "safe": "safe",
    "unsafe": "unsafe (`--unsafe-fixes`)",
    "both": "safe or unsafe, told by the finding",
}
_SECTION = regex(r"^## (.+)\n", re.MULTILINE)
# Comments in a proof's programs for those who check them: fixtures/README.md describes them.
_MARKER = regex(r"[ \t]+#\s*[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """A program of a proof as a page shows it: without markers and headers.

    `targets` are the releases it is checked for where they are not the newest, such as "flax=0.11.2", and `options`
    the options it is checked with; `settings` are lines of a shardlint.toml.
    """

    text: str
    targets: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


def program(file: Path) -> Program:
    """A program of a proof, read for its page. Raises `OSError` where it is not there."""
    said = header(file.read_text("utf-8"))
    return Program(_MARKER.sub("", said.text), said.targets, said.options, said.settings)


def page(rule: type[Rule]) -> str:
    """The page in Markdown: title, facts about the rule, its sections with the programs of its proof, and how its
    findings were judged."""
    told = ", ".join(f"{package} {spec}".strip() for package, spec in rule.releases.items()) or "all releases"
    facts = " · ".join(
        (
            f"Harm: {rule.harm.value}",
            f"certainty: {_certainty(rule)}",
            f"holds for: {told}",
            f"fix: {_FIX[rule.fixes]}",
            *([f"only with the setting: `{rule.setting}`"] if rule.setting else ()),
            *([f"stability: {rule.stability()}"] if rule.stability() != "stable" else ()),
        )
    )
    if rule.deprecated:
        facts += f"\n\nDeprecated: {rule.deprecated}"
    summary, *rest = _SECTION.split(inspect.cleandoc(rule.__doc__ or ""))
    sections = {title: text.strip() for title, text in zip(rest[::2], rest[1::2], strict=True)}
    folder = proof_folders().get(rule.code)
    if folder is not None:
        sections |= _examples(rule, folder, sections.get(_INSTEAD, ""))
    titles = sorted(sections, key=lambda title: HEADINGS.index(title) if title in HEADINGS else len(HEADINGS))
    body = "\n\n".join(f"## {title}\n{sections[title]}" for title in titles)
    return f"# {rule.code} {rule.name}\n\n{facts}\n\n{summary.strip()}\n\n{body}\n{_judged(rule)}"


def _examples(rule: type[Rule], folder: Path, advice: str) -> dict[str, str]:
    """The sections that show the programs, which `shardlint verify --rules` runs."""
    bad, good = program(folder / "bad.py"), program(folder / "good.py")
    proof = f"Both programs are run by `shardlint verify --rules {rule.code}`."
    return {
        _EXAMPLE: "\n\n".join((*_conditions(bad), _fenced(bad))),
        _INSTEAD: "\n\n".join((_fenced(good), *([advice] if advice else []), proof)),
    }


def _conditions(shown: Program) -> Iterator[str]:
    """What must be said of a program that is not reported for the newest releases, or not by default."""
    releases = ", ".join(target.replace("=", " ") for target in shown.targets)
    parts = [f"for {releases}"] if releases else []
    parts += [f"with `--{option.replace('=', ' ')}`" for option in shown.options]
    parts += [f"with the setting `{setting}`" for setting in shown.settings]
    if parts:
        yield f"Reported {' and '.join(parts)}:"


def _fenced(shown: Program) -> str:
    return f"```python\n{shown.text}```"


def _certainty(rule: type[Rule]) -> str:
    """How sure its findings may be, with the forms that are likely."""
    forms = f" ({', '.join(filter(None, rule.likely))})" if any(rule.likely) else ""
    said = [rule.certainty.value] if rule.certainty is Certainty.PROVEN else []
    return ", ".join([*said, *([f"likely{forms}"] if rule.likely else [])] or [rule.certainty.value])


def _judged(rule: type[Rule]) -> str:
    found = figures(entries(rule.code))
    if not found:
        return ""
    return "\n".join(["", "## Judged on public code", *HEAD, *table(found), ""])
