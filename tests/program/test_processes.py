"""Which process runs code, what starts the backend, and what all processes must do together."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from shardlint.facts.processes.backend_starts import Backend
from shardlint.facts.processes.collective_calls import collective_calls
from shardlint.facts.processes.conditions import (
    evaluate_on_first_process,
    find_process_guard,
    multi_process_evidence,
)
from shardlint.model import Program
from shardlint.model.values import Place

IMPORTS = "import jax\nfrom jax.experimental import multihost_utils\n"


def program(folder: Path, **files: str) -> Program:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return Program(folder)


def call(program: Program, path: Path, text: str) -> Place:
    file = program.project.facts(path)
    assert file is not None
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call) and file.source_text(node) == text:
            return Place(file, node)
    raise LookupError(text)


@pytest.mark.parametrize(
    ("test", "truth", "proven"),
    [
        ("jax.process_index() == 0", True, True),
        ("0 == jax.process_index()", True, True),
        ("jax.process_index() != 0", False, True),
        ("jax.process_index() > 0", False, True),
        ("not jax.process_index()", True, True),
        ("not jax.process_index() == 0", False, True),
        ("x and jax.process_index() == 0", True, True),
        ("x or jax.process_index() != 0", False, True),
        ("jax.host_id() < 1", True, True),
        ("is_main_process", True, False),
        ("self.rank == 0", True, False),
    ],
)
def test_a_condition_for_one_process(tmp_path: Path, test: str, truth: bool, proven: bool) -> None:
    found = asked(tmp_path, test)
    assert found is not None
    assert (found.truth, found.proven) == (truth, proven)


@pytest.mark.parametrize(
    "test", ["x == 0", "jax.process_count() == 1", "x or jax.process_index() == 0", "index == 0"]
)
def test_a_condition_that_asks_for_something_else(tmp_path: Path, test: str) -> None:
    assert asked(tmp_path, test) is None


def asked(folder: Path, test: str):  # type: ignore[no-untyped-def]
    whole = program(folder, a=f"import jax\ndef f(self, x, index):\n    if {test}:\n        run()\n")
    file = whole.project.facts(folder / "a.py")
    assert file is not None
    condition = next(node for node in ast.walk(file.tree) if isinstance(node, ast.If))
    return evaluate_on_first_process(whole, Place(file, condition.test))


def test_a_guard_is_an_if_or_an_early_return(tmp_path: Path) -> None:
    text = """import jax
def f(x):
    if jax.process_index() == 0:
        one(x)
    else:
        others(x)
    every(x)
    if jax.process_index() != 0:
        return
    rest(x)
"""
    whole = program(tmp_path, a=text)
    guards = {
        name: find_process_guard(whole, place.file, place.node) is not None
        for name in ("one", "others", "every", "rest")
        for place in [call(whole, tmp_path / "a.py", f"{name}(x)")]
    }
    assert guards == {"one": True, "others": False, "every": False, "rest": True}


@pytest.mark.parametrize(
    ("before", "starts"),
    [
        ("jax.devices()", True),
        ("x = helper.count()", True),
        ("x = helper.Log()", True),
        ("import defaults", True),
        ("def g(n=jax.device_count()): pass", True),
        ("with open(p) as f:\n        jax.devices()", True),
        ("if p:\n        jax.devices()", False),
        ("g = lambda: jax.devices()", False),
        ("for _ in p:\n        jax.devices()", False),
        ("x = p and jax.devices()", False),
        ("x = helper.maybe(p)", False),
        ("import helper", False),
    ],
)
def test_what_starts_the_backend(tmp_path: Path, before: str, starts: bool) -> None:
    helper = """import jax
def count():
    return jax.device_count()
def maybe(p):
    if p:
        return 1
    return jax.device_count()
class Log:
    def __init__(self):
        self.index = jax.process_index()
"""
    main = f"import jax\nimport helper\ndef main(p):\n    {before}\n    jax.distributed.initialize()\n"
    whole = program(tmp_path, main=main, helper=helper, defaults="import jax\nN = jax.device_count()\n")
    place = call(whole, tmp_path / "main.py", "jax.distributed.initialize()")
    found = Backend(whole).find_start_before(place)
    assert (found is not None) is starts


def test_imports_in_circles_start_the_backend_for_every_question(tmp_path: Path) -> None:
    whole = program(
        tmp_path,
        main="import one\nimport jax\njax.distributed.initialize()\n",
        again="import two\nimport jax\njax.distributed.initialize()\n",
        quiet="import calm\nimport jax\njax.distributed.initialize()\n",
        one="import two\n",
        two="import one\nimport three\n",
        three="import jax\nDEVICES = jax.devices()\n",
        calm="import calm\n",
    )
    found = {}
    for name in ("main", "again", "quiet", "main"):
        started = Backend(whole).find_start_before(call(whole, tmp_path / f"{name}.py", "jax.distributed.initialize()"))
        found[name] = started and [one.file.path.stem for one in (*started.through, started.place)]
    assert found == {
        "main": ["main", "one", "two", "three"], "again": ["again", "two", "three"], "quiet": None,
    }  # fmt: skip


def test_calls_for_all_processes_are_followed(tmp_path: Path) -> None:
    helper = f"{IMPORTS}def host(tree):\n    return jax.tree.map(multihost_utils.process_allgather, tree)\n"
    main = "import helper\ndef save(x):\n    return helper.host(x)\ndef other(x):\n    return x\n"
    whole = program(tmp_path, main=main, helper=helper)
    file = whole.project.facts(tmp_path / "main.py")
    assert file is not None
    found = {}
    for node in file.tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = [one.name.rpartition(".")[2] for one in collective_calls(whole, file, node.body)]
    assert found == {"save": ["process_allgather"], "other": []}


def test_a_program_for_several_processes(tmp_path: Path) -> None:
    whole = program(
        tmp_path,
        main="import jax\nimport work\njax.distributed.initialize()\n",
        work="import jax\n",
        other="import jax\n",
    )
    asked = {name: multi_process_evidence(whole, whole.project.facts(tmp_path / f"{name}.py")) for name in ("work", "other")}  # type: ignore[arg-type]
    assert asked == {"work": "initialized", "other": ""}
