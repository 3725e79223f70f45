"""An index of words stands through edits, and finds what a search of the texts finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.model import project as module
from shardlint.model.project import Project
from shardlint.model.rechecked_project import update_project
from shardlint.source.text import Source

QUESTIONS = [("attribute", "put"), ("anywhere", "put"), ("named", "put", "a"), ("starred", "a"), ("imported", "jax")]


def asked(project: Project) -> dict[tuple[str, ...], list[str]]:
    return {question: [path.name for path in project._all_files_holding(question)] for question in QUESTIONS}


def texts(root: Path, edits: dict[str, str]) -> dict[Path, Source]:
    paths = {root / f"{name}.py": text for name, text in edits.items()}
    return {path: Source(path, text) for path, text in paths.items()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {
        "a": "def put(x): ...\n",
        "b": "from a import put\nput(1)\n",
        "c": "from a import *\n",
        "d": "import jax\nx.put\n",
        "e": "y = 1\n",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    "edits",
    [
        {"e": "from a import put\nimport jax\nx.put\n"},
        {"d": "nothing = 1\n"},
        {"c": "c = 1\n", "a": "from a import *\nimport jax\n"},
        {"b": "put\n", "new": "from a import *\nimport jax\nself.put = put\n"},
    ],
)
def test_it_stands_through_edits(root: Path, edits: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SEARCHES_BEFORE_INDEX", 0)
    before = Project(root)
    before._all_files_holding(("anywhere", "x"))
    index = vars(before)["_word_index"]
    overlay = texts(root, edits)
    fresh = Project(root, overlay)
    after, _ = update_project(before, overlay, list(overlay), fresh.files)
    assert vars(after)["_word_index"] is index
    assert asked(after) == asked(fresh)
    undone, _ = update_project(after, {}, list(overlay), Project(root).files)
    assert asked(undone) == asked(Project(root))


def test_after_many_edits_it_is_made_anew(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SEARCHES_BEFORE_INDEX", 0)
    monkeypatch.setattr(module, "_OUTDATED", 1)
    before = Project(root)
    before._all_files_holding(("anywhere", "x"))
    overlay = texts(root, {"a": "x.put\n", "b": ""})
    after, _ = update_project(before, overlay, list(overlay), None)
    assert "_word_index" not in vars(after)
    assert asked(after) == asked(Project(root, overlay))
