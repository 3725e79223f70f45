"""Tests that the cached state of a project between two edits gives the findings of a fresh check."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.engine.one_file import Checker
from shardlint.engine.results import Options, Outcome
from shardlint.model import Program
from shardlint.server.kept_programs import KeptPrograms
from shardlint.source.decoding import decode_file
from shardlint.source.text import Source
from tests.conftest import Write

MESH = """\
import jax

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
"""
TRAIN = """\
from jax.experimental.pjit import pjit

from meshes import mesh


def step(x):
    return x * 2.0


def main(x):
    with mesh:
        return pjit(step)(x)
"""
EVALUATE = """\
import meshes
from train import step


def evaluate(x):
    with meshes.mesh:
        return step(x)
"""
READER = """\
from jax.interpreters import pxla

from train import main


def size(x):
    return main(x), pxla.thread_resources.env.physical_mesh.size
"""
PLAIN = "from train import main\n\n\ndef size(x):\n    return main(x)\n"
FILES = {"meshes.py": MESH, "train.py": TRAIN, "evaluate.py": EVALUATE, "reader.py": PLAIN}
EDITS = [
    ("train.py", TRAIN.replace("x * 2.0", "x * 3.0")),
    ("reader.py", READER),
    ("reader.py", READER.replace(".size\n", ".shape\n")),
    ("train.py", TRAIN),
    ("evaluate.py", EVALUATE.replace("with meshes.mesh:", "with meshes.mesh, open(x):")),
    ("meshes.py", MESH.replace("Auto", "Explicit")),
    ("train.py", TRAIN.replace("x * 2.0", "x * 4.0")),
    ("meshes.py", MESH),
    ("evaluate.py", EVALUATE.replace("import meshes", "import other as meshes")),
    ("reader.py", PLAIN),
    ("evaluate.py", EVALUATE),
    ("train.py", TRAIN.replace("pjit(step)", "pjit(step, in_shardings=None, donate_argnums=(0,))")),
]


def said(outcome: Outcome) -> list[object]:
    """All that is told of a file."""
    found = outcome.report.findings if outcome.report is not None else []
    return [(one.rule.code, one.start, one.message, one.help, one.why, one.fix, one.obstacles) for one in found]


def source(root: Path, name: str, text: str) -> Source:
    return decode_file(root / name, text.encode())


@pytest.mark.parametrize("turn", [0, 5])
def test_each_edit_gives_what_a_new_check_gives(write: Write, turn: int) -> None:
    root = write({**FILES, "pyproject.toml": "[project]\nname = 'p'\ndependencies = ['jax==0.12.0']\n"})
    texts = dict(FILES)
    kept = KeptPrograms(Options())
    told: set[str] = set()
    for name, text in [*EDITS[turn:], *EDITS[:turn]]:
        texts[name] = text
        overlay = {root / one: source(root, one, texts[one]) for one in texts}
        kept.bring_up_to_date(overlay, look=False)
        fresh = Checker(Options(), overlay)
        for one in texts:
            now = said(kept.check_open_file(root / one))
            assert now == said(fresh.check_file(root / one)), f"{one}, after {name} was edited"
            told |= {str(help) for _, _, _, help, *_ in now}  # type: ignore[misc]
    assert any("`with mesh:`: the mesh made at" in one and "not Auto" in one for one in told)
    assert any("evaluate.py:6: `with meshes.mesh:`: " in one and "may be called inside jit" in one for one in told)
    assert "write `with jax.set_mesh(mesh):`. New arrays in this block are replicated over the mesh" in told


def test_what_does_not_rest_on_an_edit_is_not_asked_again(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write({**FILES, "pyproject.toml": "[project]\nname = 'p'\ndependencies = ['jax==0.12.0']\n"})
    kept = KeptPrograms(Options(select=("SL315",)))
    kept.bring_up_to_date({root / "evaluate.py": source(root, "evaluate.py", EVALUATE)}, look=True)
    kept.check_open_file(root / "evaluate.py")
    asked: list[str] = []
    of_file = Program.answer_for_file

    def noted(self, file, question, answer):  # type: ignore[no-untyped-def]
        def told():  # type: ignore[no-untyped-def]
            asked.append(f"{question} {file.path.name}")
            return answer()

        return of_file(self, file, question, told)

    monkeypatch.setattr(Program, "answer_for_file", noted)
    for number in range(3):
        asked.clear()
        edited = EVALUATE.replace("def evaluate", f"probe = {number}\n\n\ndef evaluate")
        kept.bring_up_to_date({root / "evaluate.py": source(root, "evaluate.py", edited)}, look=False)
        kept.check_open_file(root / "evaluate.py")
        assert "joint plan evaluate.py" in asked and "joint plan train.py" not in asked
