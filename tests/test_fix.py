"""From findings to edits to files."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardlint.check import Options
from shardlint.fix import FixedFile, FixReport, _spliced, diff, fix, write_atomically
from shardlint.rule import Edit

Write = Callable[..., Path]
pytestmark = pytest.mark.usefixtures("pack")


def mend(root: Path, unsafe: bool = False, write: bool = True, **options: object) -> FixReport:
    return fix([root], Options(**options), unsafe, write)


def mended(write: Write, text: str | bytes, unsafe: bool = False) -> bytes:
    """What becomes of a file."""
    root = write({"x.py": text.encode() if isinstance(text, str) else text})
    report = mend(root, unsafe)
    assert not [outcome.problem for outcome in report.fixed if outcome.problem]
    after = (root / "x.py").read_bytes()
    mend(root, unsafe)
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
    assert mended(write, text) == text.encode()


def test_unsafe_fixes_are_made_when_asked_for(write: Write) -> None:
    text = "import jax.numpy as jnp\njnp.zeros(3)\n"
    assert mended(write, text) == text.encode()
    assert mended(write, text, unsafe=True) == b"import jax.numpy as jnp\njnp.ones(3)\n"


def test_what_is_left_is_counted(write: Write) -> None:
    root = write(
        {
            "x.py": "import jax, numpy as np\njax.device_put(np.array(1))\n",
            "y.py": "import jax\njax.device_put(\n",
        }
    )
    report = mend(root)
    assert [[f.rule.code for f in outcome.mended] for outcome in report.fixed] == [["XT102"], []]
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
            "import numpy as np\nfrom jax.numpy import zeros, asarray\nasarray(np.pi)\n",
            id="an-attribute-takes-no-name",
        ),
        pytest.param(
            "import numpy as np\nfrom jax.numpy import zeros\nasarray = 1\nnp.asarray(np.pi)\n",
            "import numpy as np\nfrom jax.numpy import zeros\nimport jax\nasarray = 1\njax.numpy.asarray(np.pi)\n",
            id="not-free",
        ),
        pytest.param(
            "from numpy import array\nfrom jax.numpy import zeros\narray(zeros)\n",
            "from jax.numpy import zeros, asarray\nasarray(zeros)\n",
            id="extended",
        ),
        pytest.param(
            "from numpy import array\nfrom jax.numpy import (\n    ones,  # why\n    zeros,\n)\narray(zeros)\n",
            "from jax.numpy import (\n    ones,  # why\n    zeros, asarray,\n)\nasarray(zeros)\n",
            id="extended-lines",
        ),
        pytest.param(
            "import numpy as np\nnp.asarray(np.pi)\n",
            "import numpy as np\nimport jax\njax.numpy.asarray(np.pi)\n",
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
            "import os\nimport jax\njax.numpy.asarray(os)\n",
            id="dropped-first-of-two",
        ),
        pytest.param(
            "from numpy import pi, array, asarray\narray(asarray(pi))\n",
            "from numpy import pi\nimport jax\njax.numpy.asarray(jax.numpy.asarray(pi))\n",
            id="dropped-two-of-three",
        ),
        pytest.param(
            "from numpy import array, pi, asarray, e\narray(asarray(pi * e))\n",
            "from numpy import pi, e\nimport jax\njax.numpy.asarray(jax.numpy.asarray(pi * e))\n",
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
            "import numpy as np\nimport jax\n__all__ = ['np']\njax.numpy.asarray(1)\n",
            id="exported",
        ),
        pytest.param(
            "import numpy as np\ndef f(x: 'np.ndarray'): np.asarray(x)\n",
            "import numpy as np\nimport jax\ndef f(x: 'np.ndarray'): jax.numpy.asarray(x)\n",
            id="in-an-annotation",
        ),
        pytest.param(
            '"""Doc."""\nfrom __future__ import annotations\nimport numpy as np\n\nnp.asarray(np.pi)\n',
            '"""Doc."""\nfrom __future__ import annotations\nimport numpy as np\nimport jax\n\n'
            "jax.numpy.asarray(np.pi)\n",
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
            "import numpy as np\nimport jax\nif a:\n    import jax.numpy as jnp\njax.numpy.asarray(np.pi)\n",
            id="a-conditional-import-is-not-leaned-on",
        ),
        pytest.param("import numpy as np", "import numpy as np", id="nothing"),
        pytest.param(
            "import numpy as np; np.asarray(np.pi)",
            "import jax\nimport numpy as np; jax.numpy.asarray(np.pi)",
            id="one-line",
        ),
    ],
)
def test_imports_follow(write: Write, before: str, after: str) -> None:
    assert mended(write, before).decode() == after


def test_one_import_is_added_for_several_fixes(write: Write) -> None:
    before = "import numpy as np\nnp.asarray(np.array(1))\nnp.asarray(np.pi)\n"
    after = (
        "import numpy as np\nimport jax\njax.numpy.asarray(jax.numpy.asarray(1))\njax.numpy.asarray(np.pi)\n"
    )
    assert mended(write, before).decode() == after


# overlap and rounds


def test_overlapping_fixes_take_two_rounds(write: Write) -> None:
    before = "import numpy as np\nx = np.square(np.square(a) + np.square(b))\n"
    assert mended(write, before) == b"import numpy as np\nx = ((a) ** 2 + (b) ** 2) ** 2\n"


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
    assert _spliced(text, edits) == expected
    assert _spliced(text, edits[::-1]) == expected


def test_what_waits_for_a_later_file_is_mended_in_the_same_run(write: Write) -> None:
    root = write(
        {
            "a.py": "import numpy as np\nnp.cbrt(1)\n",
            "b.py": "import numpy as hold_on\nhold_on.asarray(1)\n",
        }
    )
    report = mend(root)
    assert (root / "a.py").read_text() == "abs(1)\n"
    assert [(outcome.path.name, len(outcome.mended), len(outcome.left)) for outcome in report.fixed] == [
        ("a.py", 1, 0),
        ("b.py", 1, 0),
    ]


def test_a_text_that_would_be_encoded_otherwise_is_left(write: Write) -> None:
    data = b"# coding: utf-7\nimport numpy as np\nx = np.asarray(1)  # +AEE-\n"
    assert data.decode("utf-7").encode("utf-7") != data, "the case is none"
    root = write({"x.py": data})
    report = mend(root)
    assert (root / "x.py").read_bytes() == data
    ((_, reason),) = report.skipped
    assert reason == "written as utf-7 it would be other bytes throughout; save it as UTF-8"


def test_rules_that_undo_each_other_end(write: Write) -> None:
    root = write({"x.py": "import numpy as np\nnp.floor(1)\n"})
    (outcome,) = mend(root).fixed
    assert outcome.left
    assert (root / "x.py").read_text() == "import numpy as np\nnp.floor(1)\n"


def test_a_fix_that_would_break_the_file_is_not_made(write: Write) -> None:
    root = write({"x.py": "import numpy as np\nnp.sin(1)\n", "y.py": "import numpy as np\nnp.square(1)\n"})
    report = mend(root)
    assert report.fixed[0].problem.startswith("the fix of XT202 would break the file (Python")
    assert (root / "x.py").read_text() == "import numpy as np\nnp.sin(1)\n"
    assert (root / "y.py").read_text() == "import numpy as np\n(1) ** 2\n"


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
            b"import numpy as np\r\nimport jax\njax.numpy.asarray(np)\n",
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
            b"import numpy as np\nimport jax\n\x0c\njax.numpy.asarray(np)\n",
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
    assert mended(write, before) == after


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_rewritten_calls_keep_their_newlines(write: Write, newline: str) -> None:
    before = newline.join(["import numpy as np", "np.log(", "    a,  # ä", "    out=b,", ")", ""])
    after = newline.join(["import numpy as np", "np.log(", "    a,  # ä", ")", ""])
    assert mended(write, before) == after.encode()


def test_text_that_does_not_fit_the_encoding_is_not_written(write: Write) -> None:
    data = b"# coding: latin-1\nimport numpy as np\nnp.tan('\xe4')\n"
    root = write({"x.py": data, "y.py": b"import numpy as np\nnp.tan(1)\n"})
    report = mend(root)
    assert "does not fit the file's encoding" in report.fixed[0].problem
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
    mend(root)
    assert stat.S_IMODE((root / "x.py").stat().st_mode) == 0o751
    assert names(root) == ["setup.cfg", "x.py"]


def test_a_symlink_stays_one(write: Write) -> None:
    root = write({"real/x.txt": TEXT})
    (root / "x.py").symlink_to("real/x.txt")
    mend(root)
    assert (root / "x.py").is_symlink()
    assert (root / "real" / "x.txt").read_text() == AFTER


def test_a_file_that_did_not_change_is_not_touched(write: Write) -> None:
    root = write({"x.py": "import jax\njax.device_put(1)\n"})
    os.utime(root / "x.py", ns=(1, 1))
    mend(root)
    assert (root / "x.py").stat().st_mtime_ns == 1


def test_a_read_only_file_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write({"x.py": TEXT, "y.py": TEXT})
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path.name != "x.py" and allowed(path, mode))
    report = mend(root)
    assert [outcome.problem for outcome in report.fixed] == [
        "not written: permission denied: the file is read-only",
        "",
    ]
    assert ((root / "x.py").read_text(), (root / "y.py").read_text()) == (TEXT, AFTER)


def test_a_folder_that_cannot_be_written_to_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    def denied(**kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    root = write({"x.py": TEXT})
    monkeypatch.setattr(tempfile, "mkstemp", denied)
    assert "Permission denied" in mend(root).fixed[0].problem
    assert (root / "x.py").read_text() == TEXT


def test_someone_else_s_change_is_not_lost(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    import shardlint.fix as fixing

    root = write({"x.py": TEXT})
    real = fixing.fix_file

    def slow(*args: object, **kwargs: object) -> object:
        outcome = real(*args, **kwargs)  # type: ignore[arg-type]
        (root / "x.py").write_text("# theirs\n")
        return outcome

    monkeypatch.setattr(fixing, "fix_file", slow)
    assert "changed while it was being fixed" in mend(root).fixed[0].problem
    assert (root / "x.py").read_text() == "# theirs\n"


def test_a_file_that_vanishes_meanwhile_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    import shardlint.fix as fixing

    root = write({"x.py": TEXT})
    real = fixing.fix_file

    def slow(*args: object, **kwargs: object) -> object:
        outcome = real(*args, **kwargs)  # type: ignore[arg-type]
        (root / "x.py").unlink()
        return outcome

    monkeypatch.setattr(fixing, "fix_file", slow)
    assert mend(root).fixed[0].problem.startswith("not written:")
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
        mend(root)
    assert (root / "x.py").read_text() == TEXT
    assert names(root) == ["setup.cfg", "x.py"], "nothing is left behind"


def test_a_full_disk_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    root = write({"x.py": TEXT})
    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in mend(root).fixed[0].problem
    assert (root / "x.py").read_text() == TEXT


def test_writing_checks_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(b"new")
    with pytest.raises(OSError, match="changed while"):
        write_atomically(path, b"fixed", expected=b"old")
    write_atomically(path, b"fixed", expected=b"new")
    assert path.read_bytes() == b"fixed"


# diffs


def test_a_diff_writes_nothing(write: Write) -> None:
    root = write({"x.py": TEXT})
    (outcome,) = mend(root, write=False).fixed
    assert (root / "x.py").read_text() == TEXT
    name = (root / "x.py").as_posix()
    assert list(diff(outcome)) == [
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
    (outcome,) = mend(root, write=False).fixed
    changed = [line for line in diff(outcome) if line[0] in "+-" and line[:3] not in ("+++", "---")]
    assert changed == ["-np.square(1)", "+(1) ** 2"]


def test_an_outcome_says_whether_it_changed(write: Write) -> None:
    root = write({"x.py": TEXT, "y.py": "import jax\njax.device_put(1)\n"})
    outcomes: list[FixedFile] = mend(root, write=False).fixed
    assert [outcome.changed for outcome in outcomes] == [True, False]
