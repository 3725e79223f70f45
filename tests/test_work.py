"""How much work a run does: files parsed, mentions evaluated. Never how long it takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from shardlint.config.certainty import Certainty
from shardlint.engine.catalogue import may_reach_certainty, rule_cards
from shardlint.engine.conditions import ProjectConditions
from shardlint.engine.dispatch import find_sites
from shardlint.engine.index import RuleIndex
from shardlint.engine.one_file import Checker
from shardlint.engine.results import Options
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.rules_api.rule import Calls, Finding, Harm, Methods, Rule, Trigger, on_lines
from shardlint.rules_api.site import Site
from shardlint.source.screen import Texts
from shardlint.source.text import Source
from shardlint.syntax import FileFacts, read_facts

# What is in every scientific program, and has to do with no device.
NUMPY = """
# You may obtain a copy of the License, and split, sum or take it.
import numpy as np
import torch

def mean(x):
    y = np.asarray([1, 2]).reshape(2, 1)
    assert np.all(y), compute(y, x.size, x.shape)
    np.testing.assert_equal(y, x.copy())
    return np.mean(np.concatenate([y, y.squeeze()])), inspect(x).spec, replace(x, np.abs(y))
"""
# Jitted once, as a decorator of a module's own function.
CLEAN = """
import jax
import jax.numpy as jnp

@jax.jit
def area(radius):
    return jnp.pi * jnp.sum(radius) ** 2
"""
GLOBAL = """
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

mesh = Mesh(jax.devices(), ("data",))

def total(x):
    return np.median(jax.device_put(x, NamedSharding(mesh, PartitionSpec("data"))))
"""


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were looked into, in order."""
    found: list[Path] = []
    def noted(source: Source, path: Path) -> FileFacts:
        found.append(path)
        return read_facts(source, path)

    monkeypatch.setattr("shardlint.model.project.read_facts", noted)
    return found


def _check(folder: Path, **texts: str) -> list[str]:
    """Return the findings in files with these texts."""
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    checker = Checker(Options(certainty=Certainty.POSSIBLE))
    outcomes = [checker.check_file(path) for path in sorted(folder.glob("*.py"))]
    return [one.rule.code for outcome in outcomes if outcome.report for one in outcome.report.findings]


@pytest.mark.parametrize("text", [NUMPY, CLEAN])
def test_what_no_rule_is_for_is_not_looked_into(tmp_path: Path, parsed: list[Path], text: str) -> None:
    assert not _check(tmp_path, one=text)
    assert not parsed


def test_a_project_of_one_process_is_not_searched_for_what_several_do(
    tmp_path: Path, parsed: list[Path]
) -> None:
    (tmp_path / "setup.cfg").touch()
    reader = "import numpy as np\nfrom place import placed\n\nprint(np.sum(placed))\n"
    _check(tmp_path, reader=reader)
    assert not parsed


@pytest.mark.parametrize(("name", "found"), [("total", ["SL807"]), ("test_total", [])])
def test_several_processes_are_told_by_another_file(tmp_path: Path, name: str, found: list[str]) -> None:
    (tmp_path / "setup.cfg").touch()
    main = f"import jax\nimport {name}\n\njax.distributed.initialize()\n{name}.total([1])\n"
    assert [one for one in _check(tmp_path, **{name: GLOBAL, "main": main}) if one == "SL807"] == found


class _Probe(Rule):
    code = "XX1"
    name = "probe"
    harm = Harm.CRASH
    triggers: ClassVar[tuple[Trigger, ...]] = (Methods("close"),)
    project_says = ("initialize",)
    in_tests = False

    def check(self, site: Site) -> Iterator[Finding]:
        yield from ()


class _Named(_Probe):
    triggers = (Calls("jax.numpy.close", file_says=(on_lines("y = ", "jnp"),)),)


@pytest.mark.parametrize(
    ("around", "meets"),
    [
        (ProjectConditions(), True),
        (ProjectConditions(says=lambda texts, own: texts == ("initialize",)), True),
        (ProjectConditions(says=lambda texts, own: False), False),
        (ProjectConditions(is_test=True), False),
    ],
)
def test_the_project_is_asked_before_the_file_is_parsed(around: ProjectConditions, meets: bool) -> None:
    text = b"x.close()\n"
    assert bool(RuleIndex.index_rules([_Probe()]).words_in(["close"], text, around)) is meets


@pytest.mark.parametrize(
    ("text", "meets"),
    [
        ("import jax.numpy as jnp\ny = jnp.close(x)", True),
        ("import jax.numpy as jnp\nx = jnp.close(x)", False),  # not on a line that begins so
        ("from jax.numpy import (\n    close,\n)\ny = close(jnp)", True),
        ("import jax.numpy as jnp\ny = jnp.abs(close)", False),  # neither read of something nor imported
    ],
)
def test_a_common_word_is_one_of_a_library_where_it_is_read_or_imported(text: str, meets: bool) -> None:
    index = RuleIndex.index_rules([_Named()])
    assert bool(index.make_screen.find_words(Texts(text.encode()))) is meets


def test_what_a_method_is_called_on_is_evaluated_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import jax\nx = jax.device_get(1)\nx.close()\nx.close\nx.close = 1\n"
    path = tmp_path / "a.py"
    path.write_text(text)
    asked: list[str] = []
    value = Evaluator.value

    def noted(self: Evaluator, place: object, environment: object = None) -> object:
        asked.append(ast.unparse(place.node))  # type: ignore[attr-defined]
        return value(self, place, environment)  # type: ignore[arg-type]

    monkeypatch.setattr(Evaluator, "value", noted)
    checker = Checker(Options())
    program, targets = checker.program_and_targets(path)
    facts = program.project.facts(path)
    index = RuleIndex.index_rules([_Probe()])
    assert facts is not None
    found = list(find_sites(program, facts, index, targets, index.words_in(["close"], text.encode())))
    assert [one.form for one in found] == ["method"]
    assert asked.count("x.close") == 1


def test_files_of_module_level_decorators_wake_few_rules() -> None:
    index = RuleIndex.index_rules([card for card in rule_cards().values() if may_reach_certainty(card, Certainty.LIKELY)], Certainty.LIKELY)
    asked = index.words_in(index.make_screen.find_words(CLEAN.encode()), CLEAN.encode(), ProjectConditions(imports=lambda one: False, is_mapped=lambda: False))
    assert not asked
