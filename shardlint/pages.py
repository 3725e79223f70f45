"""A rule's page, from its docstring."""

from __future__ import annotations

import inspect

from shardlint.rule import Rule

HEADINGS = ("What it does", "Why it hurts", "Example", "Use instead", "Fix safety", "Evidence")


def page(rule: type[Rule]) -> str:
    """The page in Markdown: title, facts about the rule, then its docstring."""
    holds = ", ".join(f"{package} {spec}".strip() for package, spec in rule.holds.items()) or "all releases"
    fix = {
        "none": "none",
        "safe": "safe",
        "unsafe": "unsafe (`--unsafe-fixes`)",
        "both": "safe or unsafe, told by the finding",
    }
    facts = f"Harm: {rule.harm.value} · certainty: {rule.certainty.value} · holds for: {holds} · fix: {fix[rule.fixes]}"
    return f"# {rule.code} {rule.name}\n\n{facts}\n\n{inspect.cleandoc(rule.__doc__ or '')}\n"
