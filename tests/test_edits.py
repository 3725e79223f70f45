"""After any edit what was kept gives the answer of a cold run: the cache from run to run, the server from text to text."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from shardlint.config.certainty import Certainty
from shardlint.engine.one_file import Checker
from shardlint.engine.results import Options, Outcome
from shardlint.engine.run import check_paths
from shardlint.server.kept_programs import KeptPrograms
from shardlint.source.searches import PART, WORD
from shardlint.source.text import Source
from shardlint.syntax.file_edits import Edited, Text, code_digests
from shardlint.syntax.parts import EVERY, OUTLINE
from tests.test_one_answer import project

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))

from one_answer import answers_after_edits
from random_edits import edit_folder

OPTIONS = Options(certainty=Certainty.POSSIBLE)
USES = """\
import jax
from jax.sharding import NamedSharding, PartitionSpec as P
from helpers import place, mesh

@jax.jit
def step(x):
    return place(x)

def first():
    return 1

def last(y):
    return jax.device_put(y, NamedSharding(mesh, P("modle")))
"""
HELPERS = """\
import jax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("model",))

def place(x):
    return jax.device_put(x, NamedSharding(mesh, P("model")))

def unrelated():
    return 2
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDLINT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "pyproject.toml").touch()
    return tmp_path / "project"


def told(outcome: Outcome) -> list[tuple[object, ...]]:
    findings = outcome.report.findings if outcome.report is not None else []
    return [
        (one.rule.code, one.start, one.end, one.message, one.help, one.certainty, one.why, one.fix)
        for one in findings
    ]


@pytest.mark.longer
@pytest.mark.parametrize("seed", range(6))
def test_the_cache_after_random_edits(folder: Path, seed: int) -> None:
    project(folder, seed)
    for what, found, expected in answers_after_edits(folder, random.Random(seed), 12):
        assert found == expected, what


@pytest.mark.longer
@pytest.mark.parametrize("seed", range(4))
def test_the_server_after_random_edits(folder: Path, seed: int) -> None:
    project(folder, seed)
    chance, kept = random.Random(seed), KeptPrograms(OPTIONS)
    for _ in range(12):
        what = edit_folder(folder, chance)
        files = sorted(folder.rglob("*.py"))
        overlay = {path: Source(path, path.read_text("utf-8")) for path in files}
        kept.bring_up_to_date(overlay, look=True)
        cold = Checker(OPTIONS, overlay)
        for path in chance.sample(files, min(4, len(files))):
            assert told(kept.check_open_file(path)) == told(cold.check_file(path)), (what, path)


def looked_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The rules that are asked at sites in a run with the cache."""
    from shardlint.engine.groups import FileCheck

    asked: list[str] = []
    ask = FileCheck._ask_rule
    monkeypatch.setattr(
        FileCheck, "_ask_rule", lambda self, site, check: (asked.append(site.rule.code), ask(self, site, check))
    )
    check_paths([folder], OPTIONS, cached=True)
    monkeypatch.setattr(FileCheck, "_ask_rule", ask)
    return asked


def test_an_edit_costs_what_looked_at_the_function(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uses, helpers = folder / "uses.py", folder / "helpers.py"
    uses.write_text(USES)
    helpers.write_text(HELPERS)
    first = looked_at(folder, monkeypatch)
    assert first
    assert looked_at(folder, monkeypatch) == []
    helpers.write_text(HELPERS.replace("return 2", "edited = 0\n    return 2"))
    assert set(looked_at(folder, monkeypatch)) <= {"SL301", "SL307"}, (
        "SL307 reads the text of the file, and SL301 names a line of it, which moved"
    )
    uses.write_text(USES.replace("return 1", "edited = 0\n    return 1"))
    assert set(looked_at(folder, monkeypatch)) <= {"SL301", "SL307"}, (
        "and the former tells of a line, which moved"
    )
    helpers.write_text(HELPERS.replace("return jax", "edited = 0\n    return jax"))
    again = looked_at(folder, monkeypatch)
    assert 0 < len(again) < len(first)


ADDED = "\n\ndef added(y):\n    return y\n"


@pytest.mark.parametrize(
    ("before", "after", "outline"),
    [
        (HELPERS, HELPERS + ADDED, False),
        (HELPERS, HELPERS.replace("def unrelated", "def added(y=None):\n    return y\n\ndef unrelated"), False),
        (HELPERS, HELPERS + ADDED.replace("def", "@jax.jit\ndef"), True),
        (HELPERS, HELPERS + ADDED.replace("(y)", "(y=jax.devices())"), True),
        (HELPERS, HELPERS + ADDED.replace("added", "mesh"), True),
        (HELPERS, HELPERS + ADDED.replace("added", "place"), True),
        (HELPERS + ADDED, HELPERS, True),
        (HELPERS + ADDED, HELPERS + ADDED.replace("(y)", "(y, z)"), True),
        (HELPERS, HELPERS.replace("def place", "x = 1\n\ndef place"), True),
        (HELPERS, HELPERS.replace("mesh =", "def added(y):\n    return y\n\nmesh ="), False),
        ("mesh = 1\n" + ADDED, ADDED + "mesh = 1\n", True),
        (ADDED + ADDED.replace("added", "other"), ADDED.replace("added", "other") + ADDED, True),
    ],
)  # fmt: skip
def test_a_function_that_is_added_alone_leaves_the_outline(before: str, after: str, outline: bool) -> None:
    had, has = (Text.parse_text(Source(Path("a.py"), text), Path("a.py")) for text in (before, after))
    assert had is not None and has is not None
    edited = Edited.compare_digests(code_digests(had), has, code_digests(has))
    assert edited.may_have_changed((PART, "a.py", EVERY))
    assert edited.may_have_changed((PART, "a.py", OUTLINE)) == outline
    assert edited.may_have_changed((WORD, "a.py", "added")) or outline
    assert not edited.may_have_changed((PART, "a.py", "nowhere"))


def test_a_function_that_is_added_costs_what_looks_for_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uses, helpers = folder / "uses.py", folder / "helpers.py"
    uses.write_text(USES.replace("place, mesh", "place, mesh, added").replace('P("modle")', "added(mesh)"))
    helpers.write_text(HELPERS)
    looked_at(folder, monkeypatch)
    helpers.write_text(HELPERS + ADDED.replace("added", "another"))
    from shardlint.engine.groups import FileCheck

    looks: list[Path] = []
    find = FileCheck.run_rules
    monkeypatch.setattr(FileCheck, "run_rules", lambda self, *rest: looks.append(self.facts.path) or find(self, *rest))
    check_paths([folder], OPTIONS, cached=True)
    assert set(looks) == {helpers}
    looks.clear()
    helpers.write_text(HELPERS + ADDED)
    check_paths([folder], OPTIONS, cached=True)
    assert looks == [helpers, uses]


def test_findings_move_with_the_lines_above_them(folder: Path) -> None:
    uses = folder / "uses.py"
    uses.write_text(USES)
    (folder / "helpers.py").write_text(HELPERS)
    before = check_paths([folder], OPTIONS, cached=True)
    uses.write_text(USES.replace("return 1", "edited = 0\n    return 1"))
    after = check_paths([folder], OPTIONS, cached=True)
    starts = [
        [one.start for report in run.reports for one in report.findings if report.path == uses]
        for run in (before, after)
    ]
    added = len("edited = 0\n    ")
    line = USES.index("def first")
    assert starts[1] == [start + (added if start > line else 0) for start in starts[0]]
    assert any(start > line for start in starts[0])


NAMED = """\
import jax

class Trainer:
    def __init__(self, sharding):
        self.sharding = sharding
        self.put = print

    def step(self, x):
        self.put(x, self.sharding)
        return x
"""


def test_a_name_that_an_edit_elsewhere_gives_is_followed(folder: Path) -> None:
    path = folder / "named.py"
    path.write_text(NAMED)
    server = KeptPrograms(OPTIONS)
    found = []
    for text in (
        NAMED,
        NAMED.replace("print", "jax.device_put"),
        NAMED.replace("print", "jax.device_put\n        self.steps = 0"),
        NAMED.replace("print", "self.sharding"),
    ):
        overlay = {path: Source(path, text)}
        server.bring_up_to_date(overlay, look=False)
        fresh = KeptPrograms(OPTIONS)
        fresh.bring_up_to_date(overlay, look=False)
        found.append(told(server.check_open_file(path)))
        assert found[-1] == told(fresh.check_open_file(path))
    assert [[one[0] for one in each] for each in found] == [[], ["SL203"], ["SL203"], []]
