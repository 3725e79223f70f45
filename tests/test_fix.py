"""From findings to edits to files."""

from __future__ import annotations

import codecs
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardlint.engine.results import Options
from shardlint.rewrite.edits import Layer, back_through, forward_through
from shardlint.rewrite.fix import (
    FixedFile,
    FixReport,
    binary_patch,
    fix_files,
    unified_diff,
    write_atomically,
)
from shardlint.rewrite.project_fixes import Attempt, _explain_unwritable
from shardlint.rules_api.rule import Edit
from shardlint.source.files import replace_file
from shardlint.source.text import Source

Write = Callable[..., Path]
pytestmark = pytest.mark.usefixtures("pack")


def fix_all(root: Path, unsafe: bool = False, write: bool = True, **options: object) -> FixReport:
    return fix_files([root], Options(**options), unsafe, write)


def text_after(write: Write, text: str | bytes, unsafe: bool = False) -> bytes:
    """Return the text of a file after its fixes."""
    root = write({"x.py": text.encode() if isinstance(text, str) else text})
    report = fix_all(root, unsafe)
    assert not [outcome.problem for outcome in report.fixed if outcome.problem]
    after = (root / "x.py").read_bytes()
    fix_all(root, unsafe)
    assert (root / "x.py").read_bytes() == after, "a second fix changes it again"
    return after


# quiet


@pytest.mark.parametrize(
    "text",
    [
        "",
        "import jax\njax.device_put(1)\n",
        "import jax.numpy as jnp\njnp.zeros(3)\n",
        "import numpy as np\nnp.asarray(1)  # shardlint: ignore[XT102] meant\n",
        "import numpy as np\nwith pytest.raises(E): np.asarray(1)\n",
        "import jax\njax.device_put(\n",
    ],
)
def test_what_has_no_fix_is_left_as_it_is(write: Write, text: str) -> None:
    assert text_after(write, text) == text.encode()


def test_unsafe_fixes_are_made_when_asked_for(write: Write) -> None:
    text = "import jax.numpy as jnp\njnp.zeros(3)\n"
    assert text_after(write, text) == text.encode()
    assert text_after(write, text, unsafe=True) == b"import jax.numpy as jnp\njnp.ones(3)\n"


def test_what_is_left_is_counted(write: Write) -> None:
    root = write(
        {
            "x.py": "import jax, numpy as np\njax.device_put(np.array(1))\n",
            "y.py": "import jax\njax.device_put(\n",
        }
    )
    report = fix_all(root)
    assert [[f.rule.code for f in outcome.done] for outcome in report.fixed] == [["XT102"], []]
    assert [[f.rule.code for f in outcome.left] for outcome in report.fixed] == [["XT101"], ["SL001"]]
    assert [path.name for path, _ in report.skipped] == ["y.py"]


# imports


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "import numpy as np\nimport jax.numpy as jnp\nnp.asarray(np.pi)\n",
            "import numpy as np\nimport jax.numpy as jnp\njnp.asarray(np.pi)\n",
            id="reused",
        ),
        pytest.param(
            "import numpy as np\nimport jax\nnp.asarray(np.pi)\n",
            "import numpy as np\nimport jax\njax.numpy.asarray(np.pi)\n",
            id="reused-longer",
        ),
        pytest.param(
            "import numpy as np\nfrom jax import numpy\nnp.asarray(np.pi)\n",
            "import numpy as np\nfrom jax import numpy\nnumpy.asarray(np.pi)\n",
            id="reused-from",
        ),
        pytest.param(
            "import numpy as np\nfrom jax.numpy import asarray\nnp.asarray(np.pi)\n",
            "import numpy as np\nfrom jax.numpy import asarray\nasarray(np.pi)\n",
            id="reused-itself",
        ),
        pytest.param(
            "import numpy as np\nfrom jax.numpy import zeros\nnp.asarray(np.pi)\n",
            "import numpy as np\nfrom jax.numpy import asarray, zeros\nasarray(np.pi)\n",
            id="an-attribute-takes-no-name",
        ),
        pytest.param(
            "import numpy as np\nfrom jax.numpy import zeros\nasarray = 1\nnp.asarray(np.pi)\n",
            "import jax\nimport numpy as np\nfrom jax.numpy import zeros\nasarray = 1\njax.numpy.asarray(np.pi)\n",
            id="not-free",
        ),
        pytest.param(
            "from numpy import array\nfrom jax.numpy import zeros\narray(zeros)\n",
            "from jax.numpy import asarray, zeros\nasarray(zeros)\n",
            id="extended",
        ),
        pytest.param(
            "from numpy import array\nfrom jax.numpy import (\n    ones,  # why\n    zeros,\n)\narray(zeros)\n",
            "from jax.numpy import (\n    asarray,\n    ones,  # why\n    zeros,\n)\nasarray(zeros)\n",
            id="extended-lines",
        ),
        pytest.param(
            "import numpy as np\nnp.asarray(np.pi)\n",
            "import jax\nimport numpy as np\njax.numpy.asarray(np.pi)\n",
            id="added",
        ),
        pytest.param(
            "import numpy as np\nnp.asarray(1)\n",
            "import jax\njax.numpy.asarray(1)\n",
            id="added-and-dropped",
        ),
        pytest.param(
            "import os, numpy as np\nnp.asarray(os)\n",
            "import os\nimport jax\njax.numpy.asarray(os)\n",
            id="dropped-last-of-two",
        ),
        pytest.param(
            "import numpy as np, os\nnp.asarray(os)\n",
            "import jax\nimport os\njax.numpy.asarray(os)\n",
            id="dropped-first-of-two",
        ),
        pytest.param(
            "from numpy import pi, array, asarray\narray(asarray(pi))\n",
            "import jax\nfrom numpy import pi\njax.numpy.asarray(jax.numpy.asarray(pi))\n",
            id="dropped-two-of-three",
        ),
        pytest.param(
            "from numpy import array, pi, asarray, e\narray(asarray(pi * e))\n",
            "import jax\nfrom numpy import pi, e\njax.numpy.asarray(jax.numpy.asarray(pi * e))\n",
            id="every-other",
        ),
        pytest.param(
            "from numpy import array as arr  # old\narr(1)\n",
            "import jax\njax.numpy.asarray(1)\n",
            id="with-its-comment",
        ),
        pytest.param(
            "import os; import numpy as np\nnp.asarray(os)\n",
            "import os; pass\nimport jax\njax.numpy.asarray(os)\n",
            id="not-alone-on-its-line",
        ),
        pytest.param(
            "import numpy as np\n__all__ = ['np']\nnp.asarray(1)\n",
            "import jax\nimport numpy as np\n__all__ = ['np']\njax.numpy.asarray(1)\n",
            id="exported",
        ),
        pytest.param(
            "import numpy as np\ndef f(x: 'np.ndarray'): np.asarray(x)\n",
            "import jax\nimport numpy as np\ndef f(x: 'np.ndarray'): jax.numpy.asarray(x)\n",
            id="in-an-annotation",
        ),
        pytest.param(
            '"""Doc."""\nfrom __future__ import annotations\nimport numpy as np\n\nnp.asarray(np.pi)\n',
            '"""Doc."""\nfrom __future__ import annotations\nimport jax\nimport numpy as np\n\njax.numpy.asarray(np.pi)\n',
            id="after-the-future",
        ),
        pytest.param(
            "#!/usr/bin/env python\n# a comment\n\ndef f():\n    import numpy as np\n    np.asarray(np.pi)\n",
            "#!/usr/bin/env python\n# a comment\n\nimport jax\ndef f():\n    import numpy as np\n"
            "    jax.numpy.asarray(np.pi)\n",
            id="no-imports",
        ),
        pytest.param(
            "# a comment\n@decorated\ndef f():\n    import numpy as np\n    np.asarray(np.pi)\n",
            "# a comment\nimport jax\n@decorated\ndef f():\n"
            "    import numpy as np\n    jax.numpy.asarray(np.pi)\n",
            id="before-a-decorator",
        ),
        pytest.param(
            "import numpy as np\njax = 1\nnp.asarray(np.pi)\n",
            "import numpy as np\nfrom jax.numpy import asarray as _asarray\njax = 1\n_asarray(np.pi)\n",
            id="name-taken",
        ),
        pytest.param(
            "import numpy as np\nimport jax.numpy as jnp\ndef f(jnp): np.asarray(jnp, np.pi)\n",
            "import numpy as np\nimport jax.numpy as jnp\nimport jax\ndef f(jnp): jax.numpy.asarray(jnp, np.pi)\n",
            id="hidden-by-a-parameter",
        ),
        pytest.param(
            "import numpy as np\nif a:\n    import jax.numpy as jnp\nnp.asarray(np.pi)\n",
            "import jax\nimport numpy as np\nif a:\n    import jax.numpy as jnp\njax.numpy.asarray(np.pi)\n",
            id="a-conditional-import-is-not-leaned-on",
        ),
        pytest.param("import numpy as np", "import numpy as np", id="nothing"),
        pytest.param(
            "import numpy as np; np.asarray(np.pi)",
            "import numpy as np; import jax; jax.numpy.asarray(np.pi)",
            id="one-line",
        ),
        pytest.param(
            "from __future__ import annotations; import numpy as np; np.asarray(np.pi)\n",
            "from __future__ import annotations; import numpy as np; import jax; jax.numpy.asarray(np.pi)\n",
            id="one-line-after-the-future",
        ),
        pytest.param(
            '"""Doc.\n\nMore."""; m = 1\nimport numpy as np\nnp.asarray(np.pi)\n',
            '"""Doc.\n\nMore."""; m = 1\nimport jax\nimport numpy as np\njax.numpy.asarray(np.pi)\n',
            id="one-line-after-the-docstring",
        ),
        pytest.param(
            "import numpy as np  # NOQA: F401\nnp.asarray(1)\n",
            "import jax\nimport numpy as np  # NOQA: F401\njax.numpy.asarray(1)\n",
            id="meant-by-a-comment",
        ),
        pytest.param(
            "from numpy import (\n    array as array,\n    asarray,\n)\narray(asarray(1))\n",
            "import jax\nfrom numpy import (\n    array as array,\n)\njax.numpy.asarray(jax.numpy.asarray(1))\n",
            id="offered-as-itself",
        ),
        pytest.param(
            'import numpy as np\ndef f():\n    """F.\n\n    >>> f(np.pi)\n    """\n    np.asarray(1)\n',
            'import jax\nimport numpy as np\ndef f():\n    """F.\n\n    >>> f(np.pi)\n    """\n    jax.numpy.asarray(1)\n',
            id="used-in-a-doctest",
        ),
        pytest.param(
            "import numpy as np\nnp.asarray(1)\ndef f(): return \uff4e\uff50.pi\n",
            "import jax\nimport numpy as np\njax.numpy.asarray(1)\ndef f(): return \uff4e\uff50.pi\n",
            id="used-in-full-width-letters",
        ),
        pytest.param(
            "import numpy as np\nnp.asarray(1)  # \uff4e\uff50\uff4e\uff50\n",
            "import jax\njax.numpy.asarray(1)  # \uff4e\uff50\uff4e\uff50\n",
            id="other-full-width-letters",
        ),
        pytest.param(
            "import numpy as np\nnp.asarray(np.pi)\nfrom jax.numpy import zeros\n",
            "import jax\nimport numpy as np\njax.numpy.asarray(np.pi)\nfrom jax.numpy import zeros\n",
            id="a-late-import-is-not-extended",
        ),
        pytest.param(
            "import numpy as np\ndef f(): np.asarray(np.pi)\nf()\nimport jax.numpy as jnp\n",
            "import jax\nimport numpy as np\ndef f(): jax.numpy.asarray(np.pi)\nf()\nimport jax.numpy as jnp\n",
            id="a-late-import-is-not-reused",
        ),
        pytest.param(
            "import os, numpy as np\nos.environ['JAX_PLATFORMS'] = 'cpu'\nfrom jax import jit\nnp.asarray(np.pi)\n",
            "import os, numpy as np\nos.environ['JAX_PLATFORMS'] = 'cpu'\nimport jax\nfrom jax import jit\njax.numpy.asarray(np.pi)\n",
            id="after-what-jax-reads-when-it-is-imported",
        ),
    ],
)
def test_imports_follow(write: Write, before: str, after: str) -> None:
    assert text_after(write, before).decode() == after


def test_one_import_is_added_for_several_fixes(write: Write) -> None:
    before = "import numpy as np\nnp.asarray(np.array(1))\nnp.asarray(np.pi)\n"
    after = (
        "import jax\nimport numpy as np\njax.numpy.asarray(jax.numpy.asarray(1))\njax.numpy.asarray(np.pi)\n"
    )
    assert text_after(write, before).decode() == after


MOVED = "import numpy as np\nnp.asarray(1)\n"


@pytest.mark.parametrize(
    "other",
    [
        "from x import np\n",
        "from x import *\n",
        "def f():\n    from .x import (\n        a,\n        np as n,\n    )\n",
        "import x\nx.np.pi\n",
        "import x as y\ny.np.pi\n",
        "from a import x as y\ny.np.pi\n",
        "import x\nmonkeypatch.setattr(x, 'np', None)\n",
        "mock.patch('x.np')\n",
        pytest.param("def f():\n" + "    y = 1\n" * 40 + "    from x import np np\n", id="broken"),
    ],
)
def test_an_import_that_another_file_may_take_stays(write: Write, other: str) -> None:
    root = write({"x.py": MOVED, "test_x.py": other})
    fix_all(root)
    assert (root / "x.py").read_text() == "import jax\nimport numpy as np\njax.numpy.asarray(1)\n"


@pytest.mark.parametrize(
    "other",
    [
        "import x\nimport numpy as np\nnp.pi\n",
        "from x import f\nfrom y import np\n",
        "import x\n# x.np, mock.patch('x.np')\n",
        "import x\n\n\ndef f():\n    'As x.np does.'\n",
        "import x\nfrom y import *\nf('np is it')\n",
    ],
)
def test_an_import_that_other_files_have_from_elsewhere_goes(write: Write, other: str) -> None:
    root = write({"x.py": MOVED, "other.py": other})
    fix_all(root)
    assert (root / "x.py").read_text() == "import jax\njax.numpy.asarray(1)\n"


@pytest.mark.parametrize(("other", "goes"), [("import x, np\n", True), ("from x import np\n", False)])
def test_how_many_files_may_take_an_import_is_no_matter(
    write: Write, monkeypatch: pytest.MonkeyPatch, other: str, goes: bool
) -> None:
    monkeypatch.setattr("shardlint.model.project._SEARCH_FILES", 0)
    root = write({"x.py": MOVED, "other.py": other})
    fix_all(root)
    assert ("import numpy" in (root / "x.py").read_text()) is not goes


@pytest.mark.parametrize(
    "text",
    [
        '"""Pads np before it goes."""\n',
        'def f():\n    """Uses np."""\n',
        "print('the np way')\n",
        "# 'np'\n",
    ],
)
def test_prose_uses_no_import(write: Write, text: str) -> None:
    before = text if text.startswith('"') else ""
    root = write({"x.py": f"{before}import numpy as np\nnp.asarray(1)\n{'' if before else text}"})
    fix_all(root)
    assert "numpy as np" not in (root / "x.py").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "__all__ = ['np']\n",
        "__all__ = 'f np'.split()\n",
        "def f(x: 'np.ndarray | None'): ...\n",
        "x: 'list[np.ndarray, int]' = 1\n",
        "y = cast(\"Optional['np.ndarray']\", x)\n",
        'def f():\n    """\n    >>> np.pi\n    """\n',
    ],
)
def test_a_string_may_use_an_import(write: Write, text: str) -> None:
    root = write({"x.py": MOVED + text})
    fix_all(root)
    assert "numpy as np" in (root / "x.py").read_text()


def test_what_a_package_offers_stays(write: Write) -> None:
    root = write({"a/__init__.py": MOVED})
    fix_all(root)
    assert (root / "a/__init__.py").read_text().startswith("import jax\nimport numpy as np\n")


# overlap and rounds


def test_overlapping_fixes_take_two_rounds(write: Write) -> None:
    before = "import numpy as np\nx = np.square(np.square(a) + np.square(b))\n"
    assert text_after(write, before) == b"import numpy as np\nx = ((a) ** 2 + (b) ** 2) ** 2\n"


@given(
    st.text(alphabet="aä🐍\n\r", max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.text("xyz\n", max_size=3)), max_size=8),
)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_edits_are_spliced_as_if_made_one_by_one_from_the_end(
    text: str, drawn: list[tuple[int, str]]
) -> None:
    places = sorted({min(place, len(text)) for place, _ in drawn})
    edits = [Edit(start, end, new) for (start, end), (_, new) in zip(pairwise(places), drawn, strict=False)][
        ::2
    ]
    expected = text
    for edit in reversed(edits):
        expected = expected[: edit.start] + edit.text + expected[edit.end :]
    assert Layer.sort_edits(edits).apply_edits(text) == expected
    assert Layer.sort_edits(edits[::-1]).apply_edits(text) == expected


def test_what_waits_for_a_later_file_is_fixed_in_the_same_run(write: Write) -> None:
    root = write(
        {
            "a.py": "import numpy as np\nnp.cbrt(1)\n",
            "b.py": "import numpy as hold_on\nhold_on.asarray(1)\n",
        }
    )
    report = fix_all(root)
    assert (root / "a.py").read_text() == "abs(1)\n"
    assert [(outcome.path.name, len(outcome.done), len(outcome.left)) for outcome in report.fixed] == [
        ("a.py", 1, 0),
        ("b.py", 1, 0),
    ]


def test_projects_inside_another_are_fixed_first(write: Write) -> None:
    """Findings of the outer project may depend on a file of the inner one, which is read as it will be after its
    fixes.
    """
    outer = "import jax\nfrom sub.inner import f\njax.numpy.zeros(f(1))\n"
    root = write({"a.py": outer, "sub/inner.py": "import numpy as np\n\n\ndef f(x):\n    return np.square(x)\n"})
    (root / "sub" / "setup.cfg").touch()
    shown = [(one.path.name, one.after.text) for one in fix_all(root, unsafe=True, write=False).fixed]
    assert [name for name, _ in shown] == ["a.py", "inner.py"], "told in the order of the files"
    fix_all(root, unsafe=True)
    assert [(root / name).read_text() for name in ("a.py", "sub/inner.py")] == [text for _, text in shown]
    assert not any(one.is_changed for one in fix_all(root, unsafe=True).fixed)


def test_a_text_that_would_be_encoded_otherwise_is_left(write: Write) -> None:
    data = b"# coding: utf-7\nimport numpy as np\nx = np.asarray(1)  # +AEE-\n"
    assert data.decode("utf-7").encode("utf-7") != data, "the case is none"
    root = write({"x.py": data})
    report = fix_all(root)
    assert (root / "x.py").read_bytes() == data
    ((_, reason),) = report.skipped
    assert reason == "its encoding utf-7 would change every byte; save it as UTF-8"


def test_rules_that_undo_each_other_end(write: Write) -> None:
    root = write({"x.py": "import numpy as np\nnp.floor(1)\n"})
    (outcome,) = fix_all(root).fixed
    assert outcome.left
    assert (root / "x.py").read_text() == "import numpy as np\nnp.floor(1)\n"


def test_a_fix_that_would_break_the_file_is_not_made(write: Write) -> None:
    root = write({"x.py": "import numpy as np\nnp.sin(1)\n", "y.py": "import numpy as np\nnp.square(1)\n"})
    report = fix_all(root)
    (left,) = report.fixed[0].left
    assert left.help.startswith("ruin; not fixed: the file would not be valid (Python")
    assert not report.fixed[0].done
    assert (root / "x.py").read_text() == "import numpy as np\nnp.sin(1)\n"
    assert (root / "y.py").read_text() == "import numpy as np\n(1) ** 2\n"


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        (
            "x = 1\nfrom __future__ import annotations\n",
            "line 2: from __future__ imports must occur at the beginning of the file",
        ),
        ("f(a=1, a=2)\n", "line 1: keyword argument repeated: a"),
        ("x = '\\d' is 1\n", None),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_fix_may_not_end_in_what_parses_and_is_no_program(after: str, wrong: str | None) -> None:
    assert _explain_unwritable(Source(Path("x.py"), after)) == wrong


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "import jax\ng = jax.jit(f, static_argnums=0, static_argnums=1)\ny = jax.tree_map(f, x)\n",
            "Python cannot compile the result: line 2: keyword argument repeated: static_argnums",
        ),
        (
            "from jax.experimental.shard_map import shard_map\ng = shard_map(f, mesh, s, t, out_specs=s)\n",
            "",
        ),
    ],
)
def test_what_is_no_program_or_no_call_is_left_as_it_is(
    write: Write, start: Callable[..., subprocess.CompletedProcess[bytes]], text: str, why: str
) -> None:
    root = write({"x.py": text})
    ran = start("fix", "--unsafe-fixes", "--target", "jax=0.8.0", "x.py", cwd=root)
    assert (root / "x.py").read_text("utf-8") == text
    said = (ran.stdout + ran.stderr).decode()
    assert why in said
    assert "would break" not in said


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"# shardlint: ignore[XT101] coding: latin-1\nx = '\xe9'\n", "cannot tell the encoding"),
        (
            b"# shardlint: ignore[XT101]\n# about\n# coding: latin-1\nprint('\xc3\xa9')\n",
            "Python would read the result as iso-8859-1, but it is written as utf-8",
        ),
    ],
)
def test_a_fix_that_would_change_the_encoding_is_not_made(write: Write, data: bytes, why: str) -> None:
    root = write({"x.py": data})
    (outcome,) = fix_all(root).fixed
    assert any(f"not fixed: the file would not be valid ({why}" in finding.help for finding in outcome.left)
    assert (root / "x.py").read_bytes() == data


# checked again


def test_a_fix_that_leaves_its_finding_is_taken_back(write: Write) -> None:
    root = write({"x.py": "import numpy as np\nnp.sinh(1)\nnp.square(1)\n"})
    (outcome,) = fix_all(root).fixed
    assert (root / "x.py").read_text() == "import numpy as np\nnp.sinh(1)\n(1) ** 2\n"
    assert [finding.rule.code for finding in outcome.done] == ["XT201"]
    assert [finding.help for finding in outcome.left] == [
        "add nothing; not fixed: the finding would remain after the fix"
    ]


def test_a_fix_that_brings_a_finding_is_taken_back(write: Write) -> None:
    text = "import jax\nimport numpy as np\nnp.cosh(2)\nnp.cosh(1)\n"
    root = write({"x.py": text})
    (outcome,) = fix_all(root).fixed
    assert (root / "x.py").read_text() == "import jax\nimport numpy as np\n2\nnp.cosh(1)\n"
    assert [finding.help for finding in outcome.left] == [
        "write jax.device_put(1); not fixed: it would cause XT101 at line 4"
    ]
    assert fix_all(root, ignore=("XT101",)).fixed[0].done, "of a rule that is not selected nothing is asked"


def test_a_fix_that_brings_a_finding_to_another_file_is_taken_back(write: Write) -> None:
    a = "import jax\nimport numpy as np\ndevice_put = np.cosh(jax)\n"
    other = "import numpy as np\nnp.square(1)\n"
    root = write({"a.py": a, "b.py": "from a import device_put\ndevice_put(1)\n", "c.py": other})
    first = fix_all(root).fixed[0]
    assert (root / "a.py").read_text() == a
    assert [finding.help for finding in first.left] == [
        "write jax.device_put; not fixed: it would cause XT101 in b.py"
    ]
    assert (root / "c.py").read_text() == "import numpy as np\n(1) ** 2\n"


@pytest.mark.parametrize("finding", ["np.sinh(1)", "np.cosh(1)", "np.floor(1)", "np.sin(1)"])
def test_what_is_taken_back_is_not_made_by_a_second_run(write: Write, finding: str) -> None:
    root = write({"x.py": f"import jax\nimport numpy as np\n{finding}\nnp.square(1)\n"})
    fix_all(root)
    after = (root / "x.py").read_bytes()
    assert finding.encode() in after and b"(1) ** 2" in after
    fix_all(root)
    assert (root / "x.py").read_bytes() == after


@given(
    st.text(alphabet="ab", max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.text("xyz", max_size=3)), max_size=8),
    st.integers(0, 30),
)
@settings(derandomize=True, deadline=None, max_examples=200)
def test_places_are_followed_through_edits(text: str, drawn: list[tuple[int, str]], place: int) -> None:
    places = sorted({min(at, len(text)) for at, _ in drawn})
    edits = [Edit(start, end, new) for (start, end), (_, new) in zip(pairwise(places), drawn, strict=False)]
    layer = Layer.sort_edits(edits[::2])
    if place < len(text) and not any(edit.start <= place < edit.end for edit in layer.edits):
        there = forward_through([layer], place)
        assert layer.apply_edits(text)[there] == text[place]
        assert back_through([layer], there) == place


# left over by a process that was killed


@pytest.mark.parametrize("name", [".x.py.abcdefg1.shardlint", f".{'n' * 25}.abcdefg1.shardlint"])
def test_what_a_killed_run_left_is_removed(write: Write, name: str) -> None:
    root = write({"x.py": "x = 1\n", "n" * 30 + ".py": "x = 1\n", name: "half"})
    fix_all(root, write=False)
    assert (root / name).exists(), "a diff writes nothing"
    fix_all(root)
    assert not (root / name).exists()


@pytest.mark.parametrize(
    "name",
    [
        ".other.py.abcdefg1.shardlint",
        ".x.py.abc.shardlint",
        ".x.py.abcdefg1.shardlint-copy",
        "x.py.shardlint",
    ],
)
def test_what_is_not_ours_stays(write: Write, name: str) -> None:
    root = write({"x.py": TEXT, name: "theirs"})
    (root / ".x.py.abcdefg2.shardlint").mkdir()
    (root / ".x.py.abcdefg3.shardlint").symlink_to(root / "x.py")
    fix_all(root)
    assert (root / name).read_text() == "theirs"
    assert (root / ".x.py.abcdefg2.shardlint").is_dir()
    assert (root / ".x.py.abcdefg3.shardlint").is_symlink()


def test_what_a_living_process_writes_stays(write: Write) -> None:
    fcntl = pytest.importorskip("fcntl")
    root = write({"x.py": TEXT, ".x.py.abcdefg1.shardlint": "half"})
    with (root / ".x.py.abcdefg1.shardlint").open("r+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        fix_all(root)
    assert (root / ".x.py.abcdefg1.shardlint").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from shardlint.source.files import replace_file
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
replace_file(Path(sys.argv[1]), b"new")
"""


@pytest.mark.skipif(os.name == "nt", reason="no such signal")
def test_a_run_after_a_killed_one_cleans_up(write: Write) -> None:
    root = write({"x.py": "x = 1\n"})
    subprocess.run([sys.executable, "-c", KILLED, str(root / "x.py")], check=False)
    assert len(names(root)) == 3, "the killed one left something"
    fix_all(root)
    assert names(root) == ["setup.cfg", "x.py"]
    assert (root / "x.py").read_text() == "x = 1\n"


# bytes


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            b"import numpy as np\r\nnp.asarray(\r\n    1,\r\n)\r\n",
            b"import jax\r\njax.numpy.asarray(\r\n    1,\r\n)\r\n",
            id="crlf",
        ),
        pytest.param(
            b"import numpy as np\rnp.asarray(np)\r",
            b"import numpy as np\rimport jax\rjax.numpy.asarray(np)\r",
            id="cr",
        ),
        pytest.param(
            b"import numpy as np\r\nnp.asarray(np)\n",
            b"import jax\nimport numpy as np\r\njax.numpy.asarray(np)\n",
            id="mixed",
        ),
        pytest.param(
            codecs.BOM_UTF8 + b"import numpy as np\nnp.asarray(1)\n",
            codecs.BOM_UTF8 + b"import jax\njax.numpy.asarray(1)\n",
            id="bom",
        ),
        pytest.param(
            b"# coding: latin-1\nimport numpy as np\nnp.asarray('\xe4')\n",
            b"# coding: latin-1\nimport jax\njax.numpy.asarray('\xe4')\n",
            id="latin-1",
        ),
        pytest.param(
            "import numpy as np\nä = '🐍'; np.asarray('→')  # ü\n".encode(),
            "import jax\nä = '🐍'; jax.numpy.asarray('→')  # ü\n".encode(),
            id="utf-8",
        ),
        pytest.param(
            b"import numpy as np\n\x0c\nnp.asarray(np)\n",
            b"import jax\nimport numpy as np\n\x0c\njax.numpy.asarray(np)\n",
            id="form-feed",
        ),
        pytest.param(
            b"import numpy as np\n\tif_ = 1\n", b"import numpy as np\n\tif_ = 1\n", id="does-not-parse"
        ),
        pytest.param(
            b"import numpy as np\nnp.square(1)", b"import numpy as np\n(1) ** 2", id="no-final-newline"
        ),
        pytest.param(
            b"import numpy as np\nif a:\n\tnp.square(1)  \n\n\n",
            b"import numpy as np\nif a:\n\t(1) ** 2  \n\n\n",
            id="blanks",
        ),
    ],
)
def test_nothing_else_changes(write: Write, before: bytes, after: bytes) -> None:
    assert text_after(write, before) == after


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_rewritten_calls_keep_their_newlines(write: Write, newline: str) -> None:
    before = newline.join(["import numpy as np", "np.log(", "    a,  # ä", "    out=b,", ")", ""])
    after = newline.join(["import numpy as np", "np.log(", "    a,  # ä", ")", ""])
    assert text_after(write, before) == after.encode()


def test_text_that_does_not_fit_the_encoding_is_not_written(write: Write) -> None:
    data = b"# coding: latin-1\nimport numpy as np\nnp.tan('\xe4')\n"
    root = write({"x.py": data, "y.py": b"import numpy as np\nnp.tan(1)\n"})
    report = fix_all(root)
    assert "cannot be written in the file's encoding" in report.fixed[0].left[0].help
    assert (root / "x.py").read_bytes() == data
    assert (root / "y.py").read_text("utf-8") == "import numpy as np\n'→'\n"


# writing

TEXT = "import numpy as np\nnp.square(1)\n"
AFTER = "import numpy as np\n(1) ** 2\n"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_mode_is_kept(write: Write) -> None:
    root = write({"x.py": TEXT})
    (root / "x.py").chmod(0o751)
    fix_all(root)
    assert stat.S_IMODE((root / "x.py").stat().st_mode) == 0o751
    assert names(root) == ["setup.cfg", "x.py"]


def test_a_symlink_stays_one(write: Write) -> None:
    root = write({"real/x.txt": TEXT})
    (root / "x.py").symlink_to("real/x.txt")
    fix_all(root)
    assert (root / "x.py").is_symlink()
    assert (root / "real" / "x.txt").read_text() == AFTER


def test_a_file_that_did_not_change_is_not_touched(write: Write) -> None:
    root = write({"x.py": "import jax\njax.device_put(1)\n"})
    os.utime(root / "x.py", ns=(1, 1))
    fix_all(root)
    assert (root / "x.py").stat().st_mtime_ns == 1


def test_a_read_only_file_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write({"x.py": TEXT, "y.py": TEXT})
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path.name != "x.py" and allowed(path, mode))
    report = fix_all(root)
    assert [outcome.problem for outcome in report.fixed] == [
        "not written: permission denied: the file is read-only",
        "",
    ]
    assert ((root / "x.py").read_text(), (root / "y.py").read_text()) == (TEXT, AFTER)


def test_a_folder_that_cannot_be_written_to_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def denied(path: str | Path, *given: int) -> int:
        if str(path).endswith(".shardlint"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *given)

    root = write({"x.py": TEXT})
    monkeypatch.setattr(os, "open", denied)
    assert "Permission denied" in fix_all(root).fixed[0].problem
    assert (root / "x.py").read_text() == TEXT


def test_someone_else_s_change_is_not_lost(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    import shardlint.rewrite.fix as fixing

    root = write({"x.py": TEXT})
    real = fixing.carry_out

    def slow(attempt: Attempt) -> object:
        outcome = real(attempt)
        (root / "x.py").write_text("# theirs\n")
        return outcome

    monkeypatch.setattr(fixing, "carry_out", slow)
    assert "the file changed in the meantime" in fix_all(root).fixed[0].problem
    assert (root / "x.py").read_text() == "# theirs\n"


def test_a_file_that_vanishes_meanwhile_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    import shardlint.rewrite.fix as fixing

    root = write({"x.py": TEXT})
    real = fixing.carry_out

    def slow(attempt: Attempt) -> object:
        outcome = real(attempt)
        (root / "x.py").unlink()
        return outcome

    monkeypatch.setattr(fixing, "carry_out", slow)
    assert fix_all(root).fixed[0].problem.startswith("not written:")
    assert not (root / "x.py").exists()


@pytest.mark.parametrize("broken", ["replace", "fsync"])
def test_a_process_that_dies_while_writing_leaves_the_old_file(
    write: Write, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    class Killed(BaseException):
        pass

    def die(*args: object, **kwargs: object) -> None:
        raise Killed

    root = write({"x.py": TEXT})
    monkeypatch.setattr(os, broken, die)
    with pytest.raises(Killed):
        fix_all(root)
    assert (root / "x.py").read_text() == TEXT
    assert names(root) == ["setup.cfg", "x.py"], "nothing is left behind"


def test_a_full_disk_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    root = write({"x.py": TEXT})
    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in fix_all(root).fixed[0].problem
    assert (root / "x.py").read_text() == TEXT


def test_writing_checks_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(b"new")
    with pytest.raises(OSError, match="changed in the meantime"):
        write_atomically(path, b"fixed", expected=b"old")
    write_atomically(path, b"fixed", expected=b"new")
    assert path.read_bytes() == b"fixed"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_owner_and_group_are_kept(write: Write) -> None:
    root = write({"x.py": TEXT})
    os.chown(root / "x.py", 1234, 2345)
    (root / "x.py").chmod(0o640)
    fix_all(root)
    status = (root / "x.py").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 2345, 0o640)
    assert (root / "x.py").read_text() == AFTER


def test_a_file_of_somebody_else_stays_theirs(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardlint.source.files._copy_ownership", lambda handle, old, path: False)
    root = write({"x.py": TEXT})
    before = (root / "x.py").stat().st_ino
    fix_all(root)
    assert ((root / "x.py").stat().st_ino, (root / "x.py").read_text()) == (before, AFTER)
    assert names(root) == ["setup.cfg", "x.py"]


def test_what_could_not_be_written_over_a_file_is_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        if os.fstat(handle).st_ino == status.st_ino:
            raise OSError(28, "No space left on device")

    path = tmp_path / "x.py"
    path.write_text("old")
    status = path.stat()
    monkeypatch.setattr("shardlint.source.files._copy_ownership", lambda handle, old, path: False)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device; its new content is in") as error:
        replace_file(path, b"new")
    (copy,) = (other for other in tmp_path.iterdir() if other != path)
    assert str(copy) in str(error.value)
    assert copy.read_bytes() == b"new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        replace_file(path, b"text")
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
    assert path.is_fifo()
    assert names(tmp_path) == ["pipe"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a pipe or a device, not a file"):
        write_atomically(tmp_path / "pipe", b"text", expected=b"")


def test_what_is_our_own_follows_no_link(tmp_path: Path) -> None:
    precious, link = tmp_path / "precious", tmp_path / "link"
    precious.write_bytes(b"precious")
    link.symlink_to(precious)
    replace_file(link, b"cache", 0o600, durable=False)
    assert (precious.read_bytes(), link.read_bytes(), link.is_symlink()) == (b"precious", b"cache", False)


def test_a_name_as_long_as_may_be_is_no_trouble(write: Write) -> None:
    name = "\u6f22" * 79 + ".py"
    root = write({name: TEXT})
    fix_all(root)
    assert (root / name).read_text() == AFTER


@pytest.mark.parametrize("link", ["a.py", "z.py"])
@pytest.mark.parametrize("written", [True, False])
def test_a_file_with_a_link_to_it_is_fixed_once(write: Write, link: str, written: bool) -> None:
    root = write({"r.py": TEXT})
    (root / link).symlink_to("r.py")
    (outcome,) = fix_all(root, write=written).fixed
    assert (outcome.path.name, len(outcome.done)) == ("r.py", 1)


# diffs


def test_a_diff_writes_nothing(write: Write) -> None:
    root = write({"x.py": TEXT})
    (outcome,) = fix_all(root, write=False).fixed
    assert (root / "x.py").read_text() == TEXT
    name = (root / "x.py").as_posix().lstrip("/")  # an absolute path is none for `git apply`
    assert list(unified_diff(outcome)) == [
        f"--- a/{name}",
        f"+++ b/{name}",
        "@@ -1,2 +1,2 @@",
        " import numpy as np",
        "-np.square(1)",
        "+(1) ** 2",
    ]


@pytest.mark.parametrize(
    "text", ["import numpy as np\r\nnp.square(1)\r\n", "import numpy as np\nnp.square(1)"]
)
def test_a_diff_shows_only_what_changes(write: Write, text: str) -> None:
    root = write({"x.py": text.encode()})
    (outcome,) = fix_all(root, write=False).fixed
    changed = [line for line in unified_diff(outcome) if line[0] in "+-" and line[:3] not in ("+++", "---")]
    assert changed == ["-np.square(1)", "+(1) ** 2"]


@pytest.mark.parametrize("program", [["patch", "-p1"], ["git", "apply"]], ids=["patch", "git"])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"import numpy as np\r\nnp.square(1)\r\n", id="crlf"),
        pytest.param(b"import numpy as np\rnp.square(1)\r", id="cr"),
        pytest.param(b"import numpy as np\nnp.square(1)\r\n\n", id="mixed"),
        pytest.param(b"import numpy as np\nnp.square(1)", id="no-final-newline"),
        pytest.param(b"import numpy as np\nnp.square(1)\n\nx = 1", id="no-final-newline-further-down"),
        pytest.param(b"# coding: latin-1\nimport numpy as np\nnp.square(1)  # \xe9\n", id="latin-1"),
        pytest.param(codecs.BOM_UTF8 + b"import numpy as np\nnp.square(1)\n", id="bom"),
    ],
)
def test_a_patch_does_what_the_fix_does(
    write: Write, monkeypatch: pytest.MonkeyPatch, program: list[str], data: bytes
) -> None:
    if shutil.which(program[0]) is None:
        pytest.skip("no such program here")
    root = write({"x.py": data})
    monkeypatch.chdir(root)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(root.parent))
    (outcome,) = fix_all(Path("x.py"), write=False).fixed
    done = subprocess.run(program, input=b"".join(binary_patch(outcome)), capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (root / "x.py").read_bytes() == outcome.after.encode_file() != data


@pytest.mark.parametrize("program", [["patch", "-p1"], ["git", "apply"]], ids=["patch", "git"])
@pytest.mark.parametrize("name", ["a b.py", "my dir/x.py", "tab\tin.py", "line\nend.py", 'quo"te.py', "back\\slash.py", "\xfcn\xef.py"])
def test_a_patch_names_any_file(write: Write, monkeypatch: pytest.MonkeyPatch, program: list[str], name: str) -> None:
    if shutil.which(program[0]) is None:
        pytest.skip("no such program here")
    root = write({"setup.cfg": ""})
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"import numpy as np\nnp.square(1)\n")
    monkeypatch.chdir(root)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(root.parent))
    (outcome,) = fix_all(Path(name), write=False).fixed
    done = subprocess.run(program, input=b"".join(binary_patch(outcome)), capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert path.read_bytes() == outcome.after.encode_file()


def test_an_outcome_says_whether_it_changed(write: Write) -> None:
    root = write({"x.py": TEXT, "y.py": "import jax\njax.device_put(1)\n"})
    outcomes: list[FixedFile] = fix_all(root, write=False).fixed
    assert [outcome.is_changed for outcome in outcomes] == [True, False]
