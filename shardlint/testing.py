"""For the tests of rules, in this project and in rule packs: programs with marks, and what must hold of them.

    @pytest.mark.parametrize("case", [case for code in RULES for case in cases(code)], ids=str)
    def test_case(case):
        case.check()

A line on which a finding starts ends in a comment with its code. `fixtures/README.md` describes files, marks and
headers; docs/packs.md shows a pack's tests. What does not hold is an `AssertionError` in words. Needs no pytest.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from shardlint.config.certainty import Certainty
from shardlint.config.targets import KNOWN, parse_targets
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.rewrite.fix import fix_files, is_fix_wanted
from shardlint.rules_api.headers import Header, parse_header
from shardlint.rules_api.registry import import_rules, proof_folders, rule_entries
from shardlint.rules_api.rule import Finding

__all__ = ["Case", "Mark", "cases", "check_rule", "check_text", "run_proof"]

MARKER = re.compile(r"#\s*([A-Z]{2,}\d{2,}(?:\s*,\s*[A-Z]{2,}\d{2,})*)\s*$")
WORDS = {"pedantic", "safe-only", "unsafe-fixes"}
ROLES = ("bad", "good", "quiet")
_NEWEST = {package: releases[-1] for package, releases in KNOWN.items()}


class Mark(NamedTuple):
    """Where something is, or must be, found: a file below the case's folder, a line, a code."""

    file: str
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.code}"


@dataclass(frozen=True)
class Case:
    """A program with marks, a file or a folder of files that belong together, and how to check it.

    Its name begins with its role: `bad` (exactly the marked findings are found, and fixing gives the `good` twin),
    `good` (none is found), `quiet` (none of its rule is found). `beside` says that all rules that are on by default
    are run; without it only its own is, and marks for others say nothing.
    """

    code: str
    path: Path
    beside: bool = False

    def __str__(self) -> str:
        return f"{self.code}-{self.path.name}"

    @property
    def program_role(self) -> str:
        """`bad`, `good` or `quiet`."""
        return self.path.stem.partition("_")[0]

    @property
    def fixed_program_path(self) -> Path:
        """Return the path of the fixed program of a bad one."""
        return self.path.with_name("good" + self.path.name.removeprefix("bad"))

    def list_files(self, below: Path | None = None) -> list[Path]:
        """Its files, in order."""
        top = below or self.path
        return sorted(top.rglob("*.py")) if top.is_dir() else [top]

    def parse_header(self) -> Header:
        """Return the targets, options and settings in its first lines."""
        first = self.path / "__init__.py" if self.path.is_dir() else self.path
        return parse_header(first.read_text("utf-8") if first.is_file() else "")

    @property
    def safe_only(self) -> bool:
        """True if only safe fixes are made."""
        return "safe-only" in self.parse_header().options

    def check_options(self) -> Options:
        """How it is checked: for the newest releases, if it says no others."""
        said = self.parse_header()
        unknown = set(said.options) - WORDS
        assert not unknown, f"{self.path}: unknown options {unknown}; known are {sorted(WORDS)}"
        options = Options(
            select=(self.code,),
            certainty=Certainty.POSSIBLE if "pedantic" in said.options else None,
            targets={**_NEWEST, **parse_targets(said.targets)},
        )
        if not self.beside:
            return options
        usual = (
            ()
            if rule_entries()[self.code].load_rule().default
            else tuple(r.code for r in import_rules() if r.default)
        )
        return replace(options, select=(*usual, self.code) if usual else ())

    def expected_findings(self) -> Counter[Mark]:
        """The findings that its marks ask for."""
        found: Counter[Mark] = Counter()
        for file in self.list_files():
            name = file.relative_to(self.path.parent).as_posix()
            for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
                match = MARKER.search(line)
                codes = [code.strip() for code in match[1].split(",")] if match is not None else []
                found.update(Mark(name, number, code) for code in codes if self.beside or code == self.code)
        return found

    def copy_to(self, folder: Path) -> Path:
        """A copy in a folder that is a project of its own: nothing else is seen from it."""
        (folder / "setup.cfg").touch()
        if settings := self.parse_header().settings_as_toml:
            (folder / "shardlint.toml").write_text(settings, "utf-8")
        target = folder / self.path.name
        if self.path.is_dir():
            shutil.copytree(self.path, target)
        else:
            shutil.copyfile(self.path, target)
        return target

    def findings_in_copy(self, folder: Path) -> list[tuple[Mark, Finding]]:
        """Return the findings in a copy of it, with their places, without those about unused suppressions."""
        report = check_paths([self.copy_to(folder)], self.check_options())
        assert not report.faults, "; ".join(fault.reason for _, fault in report.faults)
        assert report.files == len(self.list_files()), f"{self.path}: not all of its files were checked"
        return [
            (
                Mark(
                    file.path.relative_to(folder).as_posix(),
                    file.source.position_of(one.start)[0],
                    one.rule.code,
                ),
                one,
            )
            for file in report.reports
            for one in file.findings
            if one.rule.code != "SL002"
        ]

    def check(self) -> None:
        """All that must hold of it. Raises `AssertionError`."""
        assert self.program_role in ROLES, f"{self.path}: its name begins with none of {', '.join(ROLES)}"
        findings = self.findings()
        self.check_findings(findings)
        if self.program_role == "bad" and self.check_fix(findings):
            replace(self, path=self.fixed_program_path).check_unchanged()

    def findings(self) -> list[tuple[Mark, Finding]]:
        """Return the findings in a copy of it that is a project of its own."""
        with _temporary_folder() as folder:
            return self.findings_in_copy(folder)

    def check_findings(self, findings: Sequence[tuple[Mark, Finding]] | None = None) -> None:
        """It gives exactly the findings that it must; `findings` are those of an earlier check, if there was one."""
        marked = self.expected_findings() if self.program_role != "good" else Counter()
        found = Counter(mark for mark, _ in (self.findings() if findings is None else findings))
        if self.program_role == "bad":
            assert marked, f"{self.path} has no marked line"
        if self.program_role == "quiet":
            own = {mark.code for mark in (*found, *marked)}
            assert self.code not in own, f"{self.path} is not quiet: {_format_counter(found)}"
        assert found == marked, (
            f"{self.path}: not marked: {_format_counter(found - marked)}; "
            f"marked but not found: {_format_counter(marked - found)}"
        )

    def check_fix(self, findings: Sequence[tuple[Mark, Finding]] | None = None) -> bool:
        """Fixing it gives its twin; False where nothing in it has a fix. `findings` as for `check_findings`."""
        unsafe = not self.safe_only
        if not any(
            is_fix_wanted(finding.fix, unsafe)
            for _, finding in (self.findings() if findings is None else findings)
        ):
            return False
        with _temporary_folder() as folder:
            target = self.copy_to(folder)
            report = fix_files([target], self.check_options(), unsafe, write=True)
            problems = [outcome.problem for outcome in report.fixed if outcome.problem]
            assert not problems, f"{self.path}: {'; '.join(problems)}"
            good = self.fixed_program_path
            assert good.exists(), f"{self.path.name} is fixed, so {good.name} must say to what"
            for expected, made in zip(Case(self.code, good).list_files(), self.list_files(target), strict=True):
                _assert_same(expected, made)
        return True

    def check_unchanged(self) -> None:
        """Fixing it changes nothing."""
        with _temporary_folder() as folder:
            report = fix_files([self.copy_to(folder)], self.check_options(), not self.safe_only, write=True)
        changed = [outcome.path.name for outcome in report.fixed if outcome.is_changed]
        assert not changed, f"{self.path}: a fix changes {', '.join(changed)}"


def cases(code: str, folder: Path | None = None, *roles: str, beside: bool = False) -> list[Case]:
    """The programs of a rule's proof: those of its pack's `PROOFS`, or in another folder."""
    top = proof_folders().get(code) if folder is None else folder
    assert top is not None and top.is_dir(), f"{code} has no folder of programs"
    made = [
        Case(code, path, beside) for path in sorted(top.iterdir()) if path.suffix == ".py" or _holds_python_files(path)
    ]
    return [case for case in made if case.program_role in (roles or ROLES)]


def check_rule(code: str, folder: Path | None = None, run: bool = False) -> None:
    """All programs of a rule's proof, and that there is one with the mistake; with `run` also its proof."""
    found = cases(code, folder)
    assert any(case.program_role == "bad" for case in found), f"{code} has no program with the mistake"
    for case in found:
        case.check()
    if run:
        run_proof(code)


def check_text(code: str, text: str, fixed: str | None = None, *, options: Sequence[str] = ()) -> None:
    """A program in a string: exactly the marked findings of a rule, none where nothing is marked.

    Where `fixed` is given, what it becomes; the marks stay. `options` are those of a header.
    """
    head = f"# options: {', '.join(options)}\n" if options else ""
    with _temporary_folder() as folder:
        role = "bad" if any(MARKER.search(line) for line in text.splitlines()) else "quiet"
        path = folder / f"{role}.py"
        path.write_text(head + text, "utf-8")
        case = Case(code, path)
        if fixed is not None:
            case.fixed_program_path.write_text(head + fixed, "utf-8")
        findings = case.findings()
        case.check_findings(findings)
        if fixed is not None:
            assert case.check_fix(findings), f"nothing in it has a fix: {text!r}"
            replace(case, path=case.fixed_program_path).check_unchanged()


def run_proof(code: str) -> None:
    """Run a rule's proof on a simulated mesh, as `shardlint verify --rules` does. Needs jax."""
    command = [sys.executable, "-m", "shardlint", "verify", "--rules", code]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace")
    assert done.returncode == 0, f"the proof of {code} does not hold:\n{done.stdout}{done.stderr}"


def _assert_same(expected: Path, path: Path) -> None:
    one, two = expected.read_bytes(), path.read_bytes()
    if one != two:
        import difflib

        before, after = (data.decode("utf-8", "replace").splitlines() for data in (one, two))
        told = "\n".join(difflib.unified_diff(before, after, expected.name, "what fix makes", lineterm=""))
        raise AssertionError(told or f"{expected}: the line ends differ")
    ast.parse(two)


def _holds_python_files(path: Path) -> bool:
    return path.is_dir() and next(path.rglob("*.py"), None) is not None


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name).resolve()


def _format_counter(found: Counter[Mark]) -> str:
    return ", ".join(map(str, sorted(found.elements()))) or "none"
