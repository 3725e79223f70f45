"""`fix --interactive`: in a terminal, with answers from a pipe, and stopped in the middle."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from shardlint.engine.results import Options
from shardlint.rewrite.fix import fix_files
from shardlint.rewrite.interactive_fixes import Asking
from tests.conftest import PACK

pty = pytest.importorskip("pty", reason="needs POSIX")
Write = Callable[..., Path]
THREE = "import numpy as np\n\nnp.square(1)\nnp.square(2)\nnp.square(3)\n"
COMMAND = [sys.executable, "-m", "shardlint", "fix", "--interactive", "--select", "XT"]
QUESTION = "[q]uit: "


def in_a_terminal(root: Path, keys: Sequence[str], *options: str) -> tuple[int, str]:
    """The command in a terminal, each key pressed at a question; the exit code and what was shown."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["PYTHONPATH"] = str(PACK)
        os.execv(sys.executable, [*COMMAND, *options, str(root)])
    shown, waiting, until, pressed = "", list(keys), time.monotonic() + 120, ""
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 5.0)[0]:
            if pressed == "\x03":
                # Python may take a signal that comes just before it reads only after the next key: people press again.
                os.write(terminal, b"\x03")
            continue
        try:
            data = os.read(terminal, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not data:
            break
        shown += data.decode()
        if waiting and shown.endswith(QUESTION):
            pressed = waiting.pop(0)
            os.write(terminal, pressed.encode())
    else:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.replace("\r\n", "\n")


def piped(root: Path, answers: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options, str(root)],
        input=answers, text=True, capture_output=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(PACK)},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "left", "code"),
    [
        pytest.param(["y\n", "n\n", "yes\n"], [2], 1, id="one-by-one"),
        pytest.param(["a\n"], [], 0, id="all-of-the-rule"),
        pytest.param(["n\n", "a\n"], [1], 1, id="all-others"),
        pytest.param(["y\n", "q\n"], [2, 3], 1, id="quit"),
        pytest.param(["y\n", "\x03"], [2, 3], 1, id="ctrl-c"),
        pytest.param(["y\n", "\x04"], [2, 3], 1, id="ctrl-d"),
        pytest.param(["?\n", "y\n", "\n", "q\n"], [2, 3], 1, id="no-answer"),
        pytest.param(["\x03"], [1, 2, 3], 1, id="at-once"),
    ],
)
def test_a_terminal(write: Write, keys: list[str], left: list[int], code: int) -> None:
    root = write({"x.py": THREE})
    ended, shown = in_a_terminal(root, keys)
    after = (root / "x.py").read_text()
    assert [int(number) for number in re.findall(r"square\((\d)\)", after)] == left, shown
    assert len(re.findall(r"\(\d\) \*\* 2", after)) == 3 - len(left)
    assert ended == code, shown
    assert "x.py:3:1: XT201 square-nested: write a power" in shown
    assert "-np.square(1)\n+(1) ** 2\n" in shown, "each is shown as a diff"
    assert "Traceback" not in shown
    assert not re.search(r"\[q\]uit: \S*x\.py: fixed", shown), "what follows an interrupted question is on its own line"


def test_a_diff_is_of_one_fix_alone(write: Write) -> None:
    root = write({"x.py": THREE})
    said = piped(root, "n\nn\nn\n").stdout
    assert said.count("@@ ") == 3
    assert re.findall(r"^-np\.square\((\d)\)$", said, re.MULTILINE) == ["1", "2", "3"]
    assert "not fixed: you declined it" in said
    assert "(1 of 3)" in said and "(3 of 3)" in said


def test_what_rests_on_a_refused_one_is_not_asked(write: Write) -> None:
    root = write({"x.py": "import numpy as np\n\nnp.square(np.square(1))\n"})
    ran = piped(root, "n\ny\n")
    assert (root / "x.py").read_text() == "import numpy as np\n\nnp.square((1) ** 2)\n", ran.stdout


def test_an_end_of_the_answers_ends_the_questions(write: Write) -> None:
    root = write({"x.py": THREE, "y.py": THREE})
    ran = piped(root, "y\n")
    assert "input ended before this question" in ran.stdout
    assert (root / "x.py").read_text().count("** 2") == 1 and (root / "y.py").read_text() == THREE


def test_a_signal_between_questions_keeps_what_was_accepted(write: Write, pack: None) -> None:
    root = write({"x.py": THREE})
    asked: list[str] = []

    def ask(question: str) -> str:
        asked.append(question)
        return "y"

    def tell(line: str) -> None:
        if asked and "XT201" in line:
            os.kill(os.getpid(), signal.SIGINT)

    asking = Asking(tell, ask)
    with asking.keep_answers():
        fix_files([root], Options(), unsafe=False, write=True, gates=[asking])
    assert len(asked) == 2, "the answer to what was being shown counts, and nothing more is asked"
    assert (root / "x.py").read_text().count("** 2") == 2
    with pytest.raises(KeyboardInterrupt), Asking(tell, ask).keep_answers():
        signal.raise_signal(signal.SIGINT)  # nothing is lost: nothing was accepted


def test_unsafe_ones_say_why(write: Write) -> None:
    root = write({"x.py": "import jax\njax.numpy.zeros(1)\n"})
    ran = piped(root, "y\n", "--unsafe-fixes")
    assert "   unsafe: the numbers change\n" in ran.stdout
    assert "ones" in (root / "x.py").read_text()
    assert piped(root, "", "--diff").returncode == 2


def test_what_moves_together_is_one_question(write: Write) -> None:
    one = "from jax.experimental.pjit import pjit\n\ndouble = pjit(lambda x: 2 * x)\n"
    two = (
        "import jax\nimport numpy as np\nfrom jax.sharding import Mesh\nfrom one import double\n\n"
        "mesh = Mesh(np.array(jax.devices()), ('x',))\nwith mesh:\n    double(np.ones(8))\n"
    )
    for answer, moved in (("n\n", False), ("y\n", True)):
        root = write({"one.py": one, "two.py": two})
        command = [*COMMAND[:-1], "SL", "--unsafe-fixes", "--target", "jax=0.12", str(root)]
        ran = subprocess.run(command, input=answer, text=True, capture_output=True, timeout=120, check=False)
        assert ran.stdout.count(QUESTION) == 1, ran.stdout
        assert ran.stdout.count("   unsafe: ") == 1 and "it works only together" not in ran.stdout.partition(QUESTION)[0]
        assert "--- a" in ran.stdout and "one.py" in ran.stdout and "with jax.set_mesh(mesh):" in ran.stdout
        assert ("jax.jit" in (root / "one.py").read_text()) is moved
        assert ("set_mesh" in (root / "two.py").read_text()) is moved


def test_a_cell_is_shown_as_it_stands(write: Write) -> None:
    code = ["%%time\n", "import jax\n", "y = jax.tree_map(abs, [1])\n", "jax.devices()"]
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": 1, "source": code}
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    root = write({"x.ipynb": json.dumps(book), "pyproject.toml": ""})
    command = [sys.executable, "-m", "shardlint", "fix", "--interactive", "--target", "jax=0.12", str(root)]
    said = subprocess.run(command, input="y\n", text=True, capture_output=True, timeout=120, check=False).stdout
    assert " %%time\n import jax\n-y = jax.tree_map(abs, [1])\n+y = jax.tree.map(abs, [1])\n" in said
    assert "An import that nothing uses" not in said
