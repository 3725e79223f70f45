"""A rule's page: its docstring, with excerpts of the two programs of its proof as examples."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from shardlint.config.certainty import Certainty
from shardlint.rules_api.headers import parse_header
from shardlint.rules_api.ledger import HEAD, figures_as_table, figures_by_form, judged_findings
from shardlint.rules_api.registry import proof_folders
from shardlint.rules_api.registry import rule_entries as entries_of_packs
from shardlint.rules_api.rule import CONDITIONAL, Rule
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily

HEADINGS = ("Reports", "Example", "Write instead", "Fix", "Limits")
"""The sections of a page, in this order. If a rule has a proof, the examples are excerpts of its programs, and the
docstring has no section "Example"; its text under "Write instead" follows the excerpt."""
_EXAMPLE, _INSTEAD = HEADINGS[1:3]
EXAMPLE_LINES = 15
"""The most lines that an example has."""
_FIX = {
    "none": "none",
    "safe": "safe",
    "unsafe": "unsafe (`--unsafe-fixes`)",
    "both": "safe or unsafe; each finding says which",
}
_CERTAINTY = "[certainty](../rules.md)"
_CONDITIONAL = (
    f"- `{CONDITIONAL}` (likely): a proven form above, if it depends on an `if` statement, or on the default of a "
    "parameter or command-line flag."
)
# All bullets up to the end of the last one.
_BULLETS = compile_lazily(r"\A.*^- .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
_SECTION = compile_lazily(r"^## (.+)\n", re.MULTILINE)
_UNNAMED = compile_lazily(r"^- (proven|possible)\b", re.MULTILINE)
# Comments in a proof's programs for those who check them: fixtures/README.md describes them.
_MARKER = compile_lazily(r"[ \t]+#\s*[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*[ \t]*$", re.MULTILINE)


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


def read_program(file: Path) -> Program:
    """A program of a proof, read for its page. Raises `OSError` where it is not there."""
    said = parse_header(file.read_text("utf-8"))
    return Program(_MARKER.sub("", said.text), said.targets, said.options, said.settings)


def render_page(rule: type[Rule]) -> str:
    """The page in Markdown: title, facts about the rule, its sections with the programs of its proof, and how its
    findings were judged."""
    told = ", ".join(f"{package} {spec}".strip() for package, spec in rule.releases.items()) or "all"
    facts = " · ".join(
        (
            f"Effect: {rule.harm.value}",
            f"{_CERTAINTY if entries_of_packs()[rule.code].is_builtin else 'certainty'}: {_describe_certainty(rule)}",
            f"releases: {told}",
            f"fix: {_FIX[rule.fixes]}",
            *([f"only with the setting: `{rule.setting}`"] if rule.setting else ()),
            *([f"stability: {rule.stability()}"] if rule.stability() != "stable" else ()),
        )
    )
    if rule.deprecated:
        facts += f"\n\nDeprecated: {rule.deprecated}"
    summary, *rest = _SECTION.split(inspect.cleandoc(rule.__doc__ or ""))
    sections = {title: text.strip() for title, text in zip(rest[::2], rest[1::2], strict=True)}
    if CONDITIONAL in rule.likely and f"`{CONDITIONAL}`" not in sections["Reports"]:
        sections["Reports"] = _BULLETS.sub(lambda found: f"{found[0]}\n{_CONDITIONAL}", sections["Reports"], count=1)
    folder = proof_folders().get(rule.code)
    if folder is not None:
        sections |= _example_sections(rule, folder, sections.get(_INSTEAD, ""))
    titles = sorted(sections, key=lambda title: HEADINGS.index(title) if title in HEADINGS else len(HEADINGS))
    body = "\n\n".join(f"## {title}\n{sections[title]}" for title in titles)
    return f"# {rule.code} {rule.name}\n\n{facts}\n\n{summary.strip()}\n\n{body}\n{_judged_section(rule)}"


def _example_sections(rule: type[Rule], folder: Path, advice: str) -> dict[str, str]:
    """The sections with excerpts of the programs, and links to the programs."""
    bad, good = read_program(folder / "bad.py"), read_program(folder / "good.py")
    marks = _marked_lines(folder / "bad.py", rule.code)
    first = marks[0] if marks else 1
    names = ["bad.py", "good.py"]
    if entries_of_packs()[rule.code].is_builtin:
        names = [f"[{name}](../../fixtures/{rule.code}/{name})" for name in names]
    proof = f"Complete programs: {', '.join(names)}. Run both: `shardlint verify --rules {rule.code}`."
    return {
        _EXAMPLE: "\n\n".join((*_report_conditions(bad), _fence_code(excerpt_around(bad.text, first)))),
        _INSTEAD: "\n\n".join(
            (
                _fence_code(excerpt_around(good.text, _counterpart_line(bad.text, good.text, first))),
                *([advice] if advice else []),
                proof,
            )
        ),
    }


def _marked_lines(file: Path, code: str) -> list[int]:
    """The lines of a program, counted without its header, that are marked with a rule's code."""
    lines = parse_header(file.read_text("utf-8")).text.splitlines()
    return [
        number for number, line in enumerate(lines, 1) if (mark := _MARKER.search(line)) and code in mark[0]
    ]


def excerpt_around(text: str, line: int) -> str:
    """At most `EXAMPLE_LINES` lines of a program around a line: its function or class, or the statements next to it."""
    tree, lines = ast.parse(text), text.splitlines()
    scopes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and _first_line(node) <= line <= (node.end_lineno or 0)
    ]
    fitting = [node for node in scopes if _line_count(node) <= EXAMPLE_LINES]
    if fitting:
        scope = max(fitting, key=_line_count)
        start, end = _with_neighbours(tree, scope)
    else:
        body = min(scopes, key=_line_count).body if scopes else tree.body
        start, end = _statements_around(body, line)
    example = ""
    for first, last in _with_definitions(tree, start, end):
        part = textwrap.dedent("\n".join(lines[first - 1 : last])) + "\n"
        example += "\n" * (bool(example) and ("\n" in part.strip() or "\n" in example.strip())) + part
    return example


def _with_definitions(tree: ast.Module, start: int, end: int) -> list[tuple[int, int]]:
    """The lines of an excerpt, and of the module's definitions that it uses, as many as an example has room for.

    Classes are chosen first, then short definitions, and that of a mesh last. A statement that sets an environment
    variable counts as used.
    """
    shown, room = [(start, end)], EXAMPLE_LINES - (end - start + 1)
    while True:
        used = {
            one.id
            for one in ast.walk(tree)
            if isinstance(one, ast.Name) and any(first <= one.lineno <= last for first, last in shown)
        }
        fitting = [
            node
            for node in tree.body
            if (_defined_names(node) & used or _sets_environment(node))
            and not any(first <= _first_line(node) <= last for first, last in shown)
            and _line_count(node) + 1 <= room
        ]
        if not fitting:
            return sorted(shown)
        node = min(
            fitting,
            key=lambda one: (
                not isinstance(one, ast.ClassDef),
                "mesh" in _defined_names(one),
                _line_count(one),
            ),
        )
        shown.append((_first_line(node), node.end_lineno or 0))
        room -= _line_count(node) + 1


def _sets_environment(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("os.environ")


def _with_neighbours(tree: ast.Module, scope: ast.stmt) -> tuple[int, int]:
    """The first and last line of a function or class, with the definitions next to it that show how it is traced.

    These are a caller of a decorated function, a function that passes it to another one, and before it an assigned
    name or decorated function that it uses. An example must have room for them.
    """
    start, end = _first_line(scope), scope.end_lineno or 0
    at = tree.body.index(scope) if scope in tree.body else 0
    for other in tree.body[at + 1 : at + 2]:
        used = _used_names(other) if getattr(scope, "decorator_list", []) else _argument_names(other)
        if (
            used & _defined_names(scope)
            and _defined_names(other)
            and (other.end_lineno or 0) - start < EXAMPLE_LINES
        ):
            end = other.end_lineno or 0
    for other in tree.body[max(at - 1, 0) : at]:
        shows = isinstance(other, ast.Assign) or getattr(other, "decorator_list", [])
        if shows and _defined_names(other) & _used_names(scope) and end - _first_line(other) < EXAMPLE_LINES:
            start = _first_line(other)
    return start, end


def _defined_names(node: ast.stmt) -> set[str]:
    """The names that a definition or an assignment binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    return {one.id for one in node.targets if isinstance(one, ast.Name)} if isinstance(node, ast.Assign) else set()


def _used_names(node: ast.stmt) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def _argument_names(node: ast.stmt) -> set[str]:
    """The names that calls get as arguments."""
    calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
    arguments = [part for one in calls for part in (*one.args, *(each.value for each in one.keywords))]
    return {one.id for one in arguments if isinstance(one, ast.Name)}


def _statements_around(body: list[ast.stmt], line: int) -> tuple[int, int]:
    """The first and last line of the statements around a line, as many as an example may have."""
    spans = [
        (_first_line(one), one.end_lineno or 0)
        for one in body
        if not isinstance(one, ast.Import | ast.ImportFrom)
    ]
    at = next((number for number, (_, end) in enumerate(spans) if line <= end), len(spans) - 1)
    first = last = at
    while True:
        if first > 0 and spans[last][1] - spans[first - 1][0] < EXAMPLE_LINES:
            first -= 1
        elif last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] < EXAMPLE_LINES:
            last += 1
        else:
            break
    start, end = spans[first][0], spans[last][1]
    return (start, end) if end - start < EXAMPLE_LINES else (max(line - 7, start), min(line + 7, end))


def _counterpart_line(bad: str, good: str, line: int) -> int:
    """The line of the right program that replaces a line of the wrong one, or follows where it was."""
    import difflib

    matcher = difflib.SequenceMatcher(None, bad.splitlines(), good.splitlines(), autojunk=False)
    for _, first, last, there, _ in matcher.get_opcodes():
        if first <= line - 1 < last:
            return (
                there + line - first
                if bad.splitlines()[first:last] == good.splitlines()[there:][: last - first]
                else there + 1
            )
    return 1


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _line_count(node: ast.stmt) -> int:
    return (node.end_lineno or 0) - _first_line(node) + 1


def _report_conditions(shown: Program) -> Iterator[str]:
    """Yield the conditions under which a program is reported, if it is not reported for the newest releases or by
    default.
    """
    releases = ", ".join(target.replace("=", " ") for target in shown.targets)
    parts = [f"for {releases}"] if releases else []
    options = ["certainty=possible" if option == "pedantic" else option for option in shown.options]
    parts += [f"with `--{option.replace('=', ' ')}`" for option in options]
    parts += [f"with the setting `{setting}`" for setting in shown.settings]
    if parts:
        yield f"Reported {' and '.join(parts)}:"


def _fence_code(text: str) -> str:
    return f"```python\n{text}```"


def _describe_certainty(rule: type[Rule]) -> str:
    """How certain its findings are."""
    said = ["proven"] if rule.certainty is Certainty.PROVEN else []
    return " or ".join([*said, *(["likely"] if rule.likely else [])] or [rule.certainty.value])


def _judged_section(rule: type[Rule]) -> str:
    """The section with the judged findings of the forms that the rule has today."""
    described = inspect.getdoc(rule) or ""
    forms = figures_by_form(judged_findings(rule.code)).items()
    found = {
        form: each
        for form, each in forms
        if (form in rule.likely or f"`{form}`" in described if form else _UNNAMED.search(described))
    }
    if not found:
        return ""
    intro = "A person read findings of this rule in public repositories:"
    return "\n".join(["", "## Judged on public code", intro, "", *HEAD, *figures_as_table(found), ""])
