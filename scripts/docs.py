"""Writes the generated parts of docs/, evaluation/ and the README; `--check` fails if one is stale."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import messages
import pictures
import recall

from shardlint.config.certainty import Certainty
from shardlint.config.settings import Settings
from shardlint.config.targets import PACKAGES
from shardlint.engine.explain_file import explain_file
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.output import text as output
from shardlint.rules_api import ledger
from shardlint.rules_api.pages import render_page
from shardlint.rules_api.registry import import_rules
from shardlint.rules_api.rule import Rule
from shardlint.verify.settings_fixtures import json_schema

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
EVALUATION = ROOT / "evaluation"

GROUPS = {
    "SL0": "shardlint itself",
    "SL1": "Equinox",
    "SL2": "jit, placement, donation",
    "SL3": "Meshes, specs, contexts",
    "SL4": "shard_map, collectives, pmap",
    "SL5": "Flax",
    "SL6": "Haliax, einshard",
    "SL7": "Optimizers and checkpoints",
    "SL8": "Processes, environment, data",
    "SL9": "Upgrades",
}
FIXES = {"none": "", "safe": "safe", "unsafe": "unsafe", "both": "safe or unsafe"}

SETTINGS = {
    "select": "Only these rules: codes, prefixes (SL2), names, harms, or all.",
    "ignore": "Leave out these rules.",
    "certainty": "Least certainty to report: proven, likely (default) or possible.",
    "pedantic": 'The same as certainty = "possible".',
    "exclude": "Paths to leave out: patterns as in .gitignore, relative to the settings file.",
    "targets": "Release of each package that the code runs on. Default: found in the project.",
    "per-file-ignores": "Rules to leave out in some files: pattern to rules.",
    "extend-select": "Also these rules, in addition to the enabled ones.",
    "extend": "Another settings file, for settings that this one does not have. The path is relative to this file.",
    "baseline": "File of known findings, relative to the settings file. Default: .shardlint-baseline.json.",
    "jit-decorators": "Dotted names of the project's own functions that trace the functions passed to them.",
    "axis-names": "The names of all mesh axes of the project: see SL340.",
    "banned-calls": "Full names, or module.* for everything in a module, and what to write instead: see SL005.",
    "mesh-makers": "Dotted names of the project's own functions that return a mesh, and its axes in order.",
}


def rules_table(kinds: list[type[Rule]], link: str) -> Iterator[str]:
    """A Markdown table of rules; `link` leads to the folder of their pages."""
    yield "| code | name | effect | fix | |"
    yield "|---|---|---|---|---|"
    for rule in kinds:
        summary = (rule.__doc__ or "").strip().splitlines()[0]
        state = "" if rule.default else " *(off by default)*"
        cells = (rule.name, rule.harm.value, FIXES[rule.fixes], f"{summary}{state}")
        yield f"| [{rule.code}]({link}{rule.code}.md) | {' | '.join(cells)} |"


def rules_index() -> str:
    """docs/rules.md."""
    lines = [
        "# Rules",
        "",
        "Effect:",
        "",
        "- `silent`: the program runs, with a wrong placement or wrong numbers",
        "- `crash`: the program raises or hangs",
        "- `cost`: more memory, communication or recompilation",
        "- `removed`: the name is removed or deprecated in a release.",
        "",
        "Certainty:",
        "",
        "- `proven`: the code shows it, for the releases that the project uses",
        "- `likely`: the form rests on one assumption, or its findings were correct in two public projects",
        "- `possible`: hidden unless you pass `--certainty possible`.",
        "",
        "A rule can have several forms. Its page lists each with its name and certainty.",
        "Unsafe fixes need `--unsafe-fixes`.",
    ]
    for prefix, title in GROUPS.items():
        kinds = [rule for rule in import_rules() if rule.code.startswith(prefix)]
        if kinds:
            lines += ["", f"## {prefix} {title}", "", *rules_table(kinds, "rules/")]
    return "\n".join(lines) + "\n"


# A rule of each group that the README shows: what goes wrong often, and says nothing.
SHOWN = ("SL005", "SL105", "SL201", "SL302", "SL403", "SL501", "SL601", "SL701", "SL806", "SL901")


def groups_table() -> Iterator[str]:
    """A Markdown table of the groups of rules, with one rule of each."""
    yield "| rules | about | for example |"
    yield "|---|---|---|"
    for prefix, title in GROUPS.items():
        kinds = [rule for rule in import_rules() if rule.code.startswith(prefix)]
        (shown,) = [rule for rule in kinds if rule.code in SHOWN]
        summary = (shown.__doc__ or "").strip().splitlines()[0]
        yield f"| {prefix}, {len(kinds)} | {title} | [{shown.code}](docs/rules/{shown.code}.md): {summary} |"


def settings_schema() -> str:
    """docs/settings.schema.json: what `[tool.shardlint]` and shardlint.toml may hold."""
    types = typing.get_type_hints(Settings)
    names = [name for name in types if name not in ("path", "given")]
    properties: dict[str, Any] = {"extend": {"description": SETTINGS["extend"], "type": "string"}}
    for name in names:
        key = name.replace("_", "-")
        properties[key] = {"description": SETTINGS[key], **_schema_of_annotation(types[name])}
    properties["targets"] |= {"propertyNames": {"enum": list(PACKAGES)}}
    properties["verify"] = {"description": "Fixtures for shardlint verify, without code.", **json_schema()}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of shardlint",
        "description": "[tool.shardlint] in pyproject.toml, or the whole of shardlint.toml.",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    return json.dumps(schema, indent=2) + "\n"


def _schema_of_annotation(annotation: Any) -> dict[str, Any]:
    if annotation is bool:
        return {"type": "boolean"}
    if annotation is Certainty:
        return {"enum": [one.value for one in Certainty]}
    if annotation is str:
        return {"type": "string"}
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is tuple:
        return {"type": "array", "items": _schema_of_annotation(arguments[0])}
    if typing.get_origin(annotation) is dict:
        return {"type": "object", "additionalProperties": _schema_of_annotation(arguments[1])}
    raise TypeError(f"no JSON schema is known for {annotation}")


def precision_page() -> str:
    """evaluation/precision.md: how findings on public code were judged."""
    judged = {rule: ledger.figures_by_form(ledger.judged_findings(rule.code)) for rule in import_rules()}
    lines = [
        "# Findings on public code, judged",
        "",
        "A person read each of these findings of `shardlint check --certainty possible` on public repositories.",
        "*Correct, harmless* means that nobody needs to act. The rules were changed after the false positives,",
        "so this table is **trained**: it does not predict the next project.",
        "[First-contact figures](README.md) do.",
        "",
        "A form of a rule that the text does not prove is *likely*, and reported by default, if one of these holds:",
        "",
        "- findings in two repositories are mistakes, and nine of ten judged findings are true",
        "- it finds recorded mistakes of two projects",
        "- it is about a contract of jax or a library and names what it assumes",
        "  ([below](#likely-by-contract-or-recorded-mistakes))",
        "",
        "Other forms are *possible* (`--certainty possible`). Old names (SL315, SL504, SL513, SL9) and SL501 were",
        "sampled. `scripts/ledger.py` lists what is not judged yet and adds verdicts.",
        "",
        "| rule | form | likely | correct, needs a fix | correct, harmless | false positive | precision |",
        "|---|---|---|---|---|---|---|",
    ]
    for rule, found in judged.items():
        for form, row in zip(found, ledger.figures_as_table(found), strict=True):
            shown, _, rest = row[2:].partition(" | ")
            likely = "yes" if form in rule.likely else ""
            lines.append(
                f"| [{rule.code}](../docs/rules/{rule.code}.md) {rule.name} | {shown} | {likely} | {rest}"
            )
    return "\n".join([*lines, *_other_likely(judged)]) + "\n"


def _other_likely(judged: Mapping[type[Rule], Mapping[str, ledger.Figures]]) -> Iterator[str]:
    """The likely forms without enough judged findings, and what they rest on."""
    yield from ("", "## Likely by contract or recorded mistakes", "")
    yield "The rule's proof tests the contract against jax. The form names what it assumes beyond the text."
    yield from ("", "| rule | form | recorded mistakes in projects | assumes |", "|---|---|---|---|")
    recorded = recall.projects_with_mistakes()
    for rule, figures in judged.items():
        for form in rule.likely:
            projects = len(recorded.get((rule.code, form), ()))
            if not ledger.is_evidence_sufficient(figures.get(form, ledger.Figures()), 0):
                named = (
                    f"[{rule.code}](../docs/rules/{rule.code}.md) {rule.name} | {form or 'proven form'}"
                )
                yield f"| {named} | {projects} | {rule.assumptions.get(form, '')} |"


def trained_scores() -> Iterator[str]:
    """A Markdown table of the scores on what the rules were changed after."""
    cases = [
        tomllib.loads(path.read_text("utf-8")) for path in (ROOT / "tests" / "mistakes").glob("*/case.toml")
    ]
    verdicts = [entry.verdict for rule in import_rules() for entry in ledger.judged_findings(rule.code)]
    good = sum(verdict != "wrong" for verdict in verdicts)
    known = recall.last_results()
    first = [
        m
        for m in recall.all_mistakes()
        if m.gathered == "first" and not m.tier.startswith("T5") and m.id in known
    ]
    found = sum(known[mistake.id].is_found(recall.DEFAULT) for mistake in first)
    yield "| what | score |"
    yield "|---|---|"
    yield (
        "| [small projects with one mistake each](../tests/mistakes/README.md) "
        f"| {sum(case['found'] for case in cases)} of {len(cases)} found |"
    )
    yield (
        "| [recorded fix commits](recall.md) that the rules were written from (T1 to T4) "
        f"| {found} of {len(first)} found by default |"
    )
    yield f"| [judged findings on public code](precision.md) | {good} of {len(verdicts)} right or harmless |"


def render_evaluation() -> str:
    """evaluation/README.md with its table of trained scores brought up to date."""
    text = (EVALUATION / "README.md").read_text("utf-8")
    return replace_block(text, "trained", "\n".join(trained_scores()))


def recall_page() -> str:
    """evaluation/recall.md, from what the last `make recall` found."""
    return recall.recall_page(recall.all_mistakes(), recall.last_results())


def decisions_index() -> str:
    """docs/decisions/README.md, from the first heading of each decision."""
    lines = ["# Decisions", "", "Decisions that hold, each with its reason."]
    entries = []
    for path in sorted((DOCS / "decisions").glob("*.md")):
        if path.name != "README.md":
            heading = re.search(r"^# (.+)$", path.read_text("utf-8"), re.MULTILINE)
            entries.append(f"- [{heading[1] if heading else path.stem}]({path.name})")
    return "\n".join([*lines, *([""] if entries else []), *entries]) + "\n"


def readme_page() -> str:
    """README.md with its finding and its table of rules brought up to date."""
    text = (ROOT / "README.md").read_text("utf-8")
    options = Options(select=("SL201",), targets={"jax": "0.12.0", "equinox": "0.13.8"})
    frame = check_output(ROOT / "fixtures" / "projects" / "charlm", options)[0]
    text = replace_block(text, "finding", textwrap.indent(f"$ shardlint check\n{frame}", "    "))
    return replace_block(text, "rules", "\n".join(groups_table()))


def tutorial_page() -> str:
    """docs/tutorial.md with the findings of its first program brought up to date."""
    text = (DOCS / "tutorial.md").read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        write_tutorial_files(Path(folder))
        lines = check_output(Path(folder), Options())
    return replace_block(text, "findings", "\n".join(["```console", "$ shardlint check", *lines, "```"]))


def write_tutorial_files(folder: Path) -> None:
    """Write the files that docs/tutorial.md has before its findings."""
    first, _, _ = (DOCS / "tutorial.md").read_text("utf-8").partition("<!-- findings:")
    for name, content in re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', first, re.DOTALL | re.MULTILINE):
        (folder / name).write_text(content, "utf-8")


MESH = {"data": 4, "model": 2}
_EXPLAINED = slice(17, 37)  # the loss, the step and the loop of the tutorial
# The pictures of layouts: the result of `predict` in charlm, Adam's moments in the tutorial, a weight.
LAYOUTS = {
    "predict": (pictures.Card("before: P()", ()), pictures.Card("after: P('data')", (("data",),))),
    "moments": (pictures.Card("before", None), pictures.Card("after: P(None, 'model')", ((), ("model",)))),
    "weights": (
        pictures.Card("declared: P('data', 'model')", (("data",), ("model",))),
        pictures.Card("found: P()", ()),
    ),
}


def terminal_picture() -> str:
    """docs/pictures/terminal.svg: check, fix and check again, on a copy of charlm."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "charlm"
        shutil.copytree(ROOT / "fixtures" / "projects" / "charlm", copy)
        environment = {
            **os.environ,
            "NO_COLOR": "1",
            "COLUMNS": "200",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'rules'}",
        }
        for command in ("check --output-format concise", "fix --unsafe-fixes", "check"):
            run = [sys.executable, "-m", "shardlint", *command.split()]
            run += ["--no-cache"] if command.startswith("check") else []
            done = subprocess.run(run, cwd=copy, env=environment, capture_output=True, text=True, check=False)
            lines += [f"$ shardlint {command}", *done.stdout.splitlines(), ""]
    return pictures.terminal_picture(lines[:-1])


def layouts_picture() -> str:
    """docs/pictures/layouts.svg: the last functions of the tutorial's program with the layouts of their arrays."""
    with tempfile.TemporaryDirectory() as folder:
        write_tutorial_files(Path(folder))
        lines = list(explain_file(Path(folder, "train.py")))
    return pictures.explained_picture(lines[_EXPLAINED])


def check_output(project: Path, options: Options) -> list[str]:
    """Return the output of `shardlint check` in the folder of a project, a finding or a line an element."""
    with contextlib.chdir(project):
        return list(output.full_report(check_paths([Path()], options)))


def replace_block(text: str, name: str, block: str) -> str:
    """The text with a block between two comments replaced. Raises ValueError if there is no such block."""
    begin, end = f"<!-- {name}: written by scripts/docs.py -->", f"<!-- end of {name} -->"
    head, first, rest = text.partition(begin)
    _, last, tail = rest.partition(end)
    if not first or not last:
        raise ValueError(f"there is no block {name}")
    return f"{head}{begin}\n\n{block}\n\n{end}{tail}"


def generated_documents() -> dict[Path, Callable[[], str]]:
    """Every generated file and what writes it."""
    found: dict[Path, Callable[[], str]] = {
        DOCS / "rules.md": rules_index,
        DOCS / "messages.md": messages.render_page,
        DOCS / "settings.schema.json": settings_schema,
        EVALUATION / "precision.md": precision_page,
        EVALUATION / "recall.md": recall_page,
        EVALUATION / "README.md": render_evaluation,
        DOCS / "decisions" / "README.md": decisions_index,
        ROOT / "README.md": readme_page,
        DOCS / "tutorial.md": tutorial_page,
        DOCS / "pictures" / "layouts.svg": layouts_picture,
        DOCS / "pictures" / "terminal.svg": terminal_picture,
    }
    for name, cards in LAYOUTS.items():
        found[DOCS / "pictures" / f"{name}.svg"] = lambda cards=cards: pictures.layout_picture(MESH, cards)  # type: ignore[misc]
    for rule in import_rules():
        found[DOCS / "rules" / f"{rule.code}.md"] = lambda rule=rule: render_page(rule)  # type: ignore[misc]
    return found


def stale_documents() -> dict[Path, str | None]:
    """Files that are not as they should be, each with its text (None: of a rule that is no more)."""
    found: dict[Path, str | None] = {}
    wanted = generated_documents()
    for path, write in wanted.items():
        text = write()
        if not path.is_file() or path.read_text("utf-8") != text:
            found[path] = text
    for path in (DOCS / "rules").glob("*.md"):
        if path not in wanted:
            found[path] = None
    return found


def main() -> int:
    """Write the documents, or only say which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when something is stale")
    only_check = parser.parse_args().check
    found = stale_documents()
    for path, text in sorted(found.items()):
        shown = path.relative_to(ROOT)
        if only_check:
            print(f"{shown} is stale: run `make docs`")
        elif text is None:
            path.unlink()
            print(f"{shown} removed")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            print(f"{shown} written")
    return 1 if only_check and found else 0


if __name__ == "__main__":
    sys.exit(main())
