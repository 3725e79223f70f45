"""How many of the mistakes `shardlint check` finds, by family.

    python tests/mistakes/score.py        # the table
    python tests/mistakes/score.py -v     # and each case with the rules that name it
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from shardlint.engine.results import Options
from shardlint.engine.run import check_paths

HERE = Path(__file__).parent
MARK = re.compile(r"[ \t]*# mistake: (\S+)")


class Found(NamedTuple):
    """A finding, as far as a score needs it."""

    file: str
    line: int
    code: str
    form: str


def names() -> list[str]:
    """The folders of all cases."""
    return sorted(path.parent.name for path in HERE.glob("*/case.toml"))


def case(name: str) -> dict[str, Any]:
    """What a case's case.toml says."""
    return tomllib.loads((HERE / name / "case.toml").read_text())


def marks(project: Path) -> dict[str, list[tuple[int, str]]]:
    """The marked lines of each file, with their categories."""
    found: dict[str, list[tuple[int, str]]] = {}
    for path in sorted(project.rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if mark := MARK.search(line):
                found.setdefault(path.relative_to(project).as_posix(), []).append((number, mark[1]))
    return found


def findings(project: Path) -> list[Found]:
    """What a check of the whole project says, the marks taken out, as in a repository of its own."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(shutil.copytree(project, Path(temporary) / "project")).resolve()
        (root / ".git").mkdir()
        for path in root.rglob("*.py"):
            path.write_text(MARK.sub("", path.read_text()))
        return [
            Found(
                file.path.relative_to(root).as_posix(),
                file.source.position_of(finding.start)[0],
                finding.rule.code,
                finding.form,
            )
            for file in check_paths([root], Options()).reports
            for finding in file.findings
        ]


def near_marks(name: str) -> list[Found]:
    """The findings in the bad twin of a case that are within one line of a mark."""
    project = HERE / name / "bad"
    marked = marks(project)
    return [
        found
        for found in findings(project)
        if any(abs(found.line - line) <= 1 for line, _ in marked.get(found.file, ()))
    ]


def main(verbose: bool) -> None:
    """Print the table."""
    found, quiet, total = Counter[str](), Counter[str](), Counter[str]()
    for name in names():
        family, near, good = case(name)["family"], near_marks(name), findings(HERE / name / "good")
        total[family] += 1
        found[family] += bool(near)
        quiet[family] += not good
        if verbose:
            said = ", ".join(sorted({item.code for item in near})) or "not found"
            print(f"{name}: {said}" + (f"; in the good twin {good}" if good else ""))
    print(f"{'family':<14} {'found':>7} {'good twin quiet':>16}")
    for family in sorted(total):
        print(f"{family:<14} {found[family]:>3}/{total[family]:<3} {quiet[family]:>12}/{total[family]}")
    print(f"{'all':<14} {found.total():>3}/{total.total():<3} {quiet.total():>12}/{total.total()}")


if __name__ == "__main__":
    main("-v" in sys.argv)
