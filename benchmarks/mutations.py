"""How many mistakes are seen that are put into real code: one line of a public project is changed, and it is checked.

`mutations.py FOLDER... [--operator NAME] [--most 24]`: each FOLDER is a project as it was cloned. Files that are named
like tests are left out. Each operator takes away what its mistake is the lack of; a project gives one place after
another, by turns, always the same ones. Seen is a finding at default certainty that the file does not have as it is,
old names aside; whether it stands at the changed line is told apart. Not each change is a mistake: some places do
without. Nothing is written to the projects: the changed text is checked as an editor's would be.
"""

from __future__ import annotations

import argparse
import ast
import random
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import mutations_jit
import mutations_maps
from mutated import Text

from shardlint.config.certainty import Certainty
from shardlint.engine.results import Options
from shardlint.server.kept_programs import KeptPrograms
from shardlint.source.decoding import decode_file

_SEED, _NEAR = 5, 2
_OLD = ("SL9", "SL315", "SL312", "SL513")


@dataclass(frozen=True)
class Place:
    """Where a text is changed: bytes from `start` to `end` become `text`."""

    project: Path
    file: Path
    line: int
    start: int
    end: int
    text: str


OPERATORS = {**mutations_jit.OPERATORS, **mutations_maps.OPERATORS}


def choose_places(projects: Sequence[Path], operators: Sequence[str], most: int) -> list[tuple[str, Place]]:
    """Where each operator changes something, at most so often, each project in turn."""
    found: dict[str, dict[Path, list[Place]]] = {operator: defaultdict(list) for operator in operators}
    for project in projects:
        for file in sorted(project.rglob("*.py")):
            inside = file.relative_to(project).parts
            if any(part.startswith("test") or part.endswith("_test.py") for part in inside) or not file.is_file():
                continue
            source = file.read_bytes()
            able = [one for one in operators if all(word in source for word in OPERATORS[one].words)]
            if b"jax" not in source or b"\r" in source or not able:
                continue
            try:
                text = Text(source)
                for operator in able:
                    changes = OPERATORS[operator].changes(text)
                    found[operator][project] += (Place(project, file, *one) for one in changes)
            except (SyntaxError, ValueError, RecursionError):
                continue
    return [(operator, place) for operator in operators for place in _draw_places(found[operator], most)]


def _draw_places(found: dict[Path, list[Place]], most: int) -> Iterator[Place]:
    drawn, order = random.Random(_SEED), sorted(found)
    drawn.shuffle(order)
    while any(found.values()) and most:
        for project in order:
            if found[project] and most:
                yield found[project].pop(drawn.randrange(len(found[project])))
                most -= 1


class Checked:
    """Projects that are kept between changes, as an editor keeps them."""

    def __init__(self, certainty: Certainty | None = None) -> None:
        self._options = Options(certainty=certainty)
        self._kept: dict[Path, KeptPrograms] = {}
        self._as_it_is: dict[Path, Counter[tuple[str, str]]] = {}

    def list_findings(self, place: Place, source: bytes) -> list[tuple[str, str, int, int]]:
        """Code, message, first and last line of each finding in the file if this were its text, old names aside."""
        kept = self._kept.get(place.project)
        if kept is None:
            self._kept.clear()
            kept = self._kept[place.project] = KeptPrograms(self._options)
        text = decode_file(place.file, source)
        kept.bring_up_to_date({place.file: text}, look=False)
        report = kept.check_open_file(place.file).report
        lines = text.line_starts
        return [
            (one.rule.code, one.message, bisect_right(lines, one.start), bisect_right(lines, one.end))
            for one in (report.findings if report is not None else ())
            if not one.rule.code.startswith(_OLD)
        ]

    def classify_outcome(self, place: Place) -> tuple[str, str]:
        """`at` the line or one near it, `elsewhere` in the file, or `missed`; and the codes of what is new."""
        source = place.file.read_bytes()
        changed = source[: place.start] + place.text.encode() + source[place.end :]
        try:
            ast.parse(changed)
        except SyntaxError:
            return "not Python any more", ""
        if place.file not in self._as_it_is:
            self._as_it_is[place.file] = Counter(one[:2] for one in self.list_findings(place, source))
        before = self._as_it_is[place.file].copy()
        new: list[tuple[str, str, int, int]] = []
        for one in self.list_findings(place, changed):
            before[one[:2]] -= 1
            if before[one[:2]] < 0:
                new.append(one)
        codes = " ".join(sorted({one[0] for one in new}))
        if any(first - _NEAR <= place.line <= last + _NEAR for _, _, first, last in new):
            return "at", codes
        return ("elsewhere" if new else "missed"), codes


def main() -> None:
    """Print each change with its outcome, and the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("projects", nargs="+", type=Path)
    parser.add_argument("--operator", action="append", choices=sorted(OPERATORS))
    parser.add_argument("--certainty", type=Certainty, choices=list(Certainty))
    parser.add_argument("--most", type=int, default=24)
    asked = parser.parse_args()
    projects = [project.resolve() for project in asked.projects if project.is_dir()]
    operators = asked.operator or list(OPERATORS)
    told: dict[str, Counter[str]] = {operator: Counter() for operator in operators}
    chosen = choose_places(projects, operators, asked.most)
    checked = Checked(asked.certainty)
    for operator, place in sorted(chosen, key=lambda one: (str(one[1].project), str(one[1].file), one[0])):
        result, codes = checked.classify_outcome(place)
        told[operator][result] += 1
        shown = place.file.relative_to(place.project).as_posix()
        print(f"{operator}: {result}: {place.project.name} {shown}:{place.line} {codes}", flush=True)
    for operator, counts in told.items():
        print(f"{operator}: {dict(counts)}", flush=True)


if __name__ == "__main__":
    main()
