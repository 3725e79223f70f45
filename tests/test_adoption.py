"""Taking shardlint into a project that has findings: baselines, comments with reasons, settings that extend others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Ran

Write = Callable[..., Path]
Run = Callable[..., Ran]
NAME = ".shardlint-baseline.json"
PUT = "import jax\n\n\ndef f(x):\n    return jax.device_put(x)\n"
MORE = "\n\ndef g(x):\n    return jax.device_put(x)\n"


@pytest.fixture(autouse=True)
def _at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


def entries(root: Path) -> list[dict[str, str]]:
    return json.loads((root / NAME).read_text("utf-8"))["findings"]


def known(write: Write, run: Run, files: dict[str, str]) -> Path:
    root = write(files)
    assert run("baseline", cwd=root).code == 0
    return root


# baselines


def test_fix_leaves_what_is_known(write: Write, run: Run) -> None:
    one = "import jax\n\n\n@jax.jit\ndef f(x):\n    return jax.device_put(x)\n"
    root = known(write, run, {"a.py": one, "requirements.txt": "jax==0.12.0\n"})
    (root / "a.py").write_text(one + "# harmless\n")
    after = run("fix", "a.py", cwd=root)
    assert (after.code, after.out) == (0, "fixed 0, left 0 in 1 file. In the baseline: 1.\n")
    (root / "a.py").write_text(one + "\n\n@jax.jit\ndef g(y):\n    return jax.device_put(y + 1)\n")
    new = run("fix", "a.py", cwd=root)
    assert new.code == 1
    assert "a.py:11:" in new.out and "a.py:6:" not in new.out
    assert "fixed 0, left 1 in 1 file. In the baseline: 1." in new.out


def test_fix_writes_nothing_where_the_baseline_is_broken(write: Write, run: Run) -> None:
    text = "import numpy as np\n\nnp.square(1)\n"
    root = write({"a.py": text, "requirements.txt": "jax==0.12.0\n", NAME: "{broken"})
    ran = run("fix", "a.py", cwd=root)
    assert ran.code == 2
    assert "is not a baseline of shardlint" in ran.err
    assert (root / "a.py").read_text() == text
    (root / NAME).unlink()
    assert run("fix", "a.py", cwd=root).code == 0
    assert "(1) ** 2" in (root / "a.py").read_text()


def test_one_command_makes_fifty_seven_findings_known(write: Write, run: Run) -> None:
    body = "".join(f"\n\ndef f{number}(x):\n    return jax.device_put(x)\n" for number in range(19))
    files = {f"p/m{number}.py": f"import jax\n{body}" for number in range(3)}
    root = write({**files, "requirements.txt": "jax==0.12.0\n"})
    ran = run("baseline", cwd=root)
    assert (ran.code, ran.out) == (0, f"{NAME}: 57 known findings in 3 files.\n")
    after = run("check", cwd=root)
    assert (after.code, after.out) == (0, f"No new findings in 3 files. Known in {NAME}: 57.\n")
    assert run("check", "p/m0.py", cwd=root).code == 0
    assert run("check", "--no-baseline", cwd=root).code == 1
    assert sum("\n" not in line for line in (root / NAME).read_text().splitlines()) == 63  # a line each


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# new\n\n\n" + PUT, id="moved down"),
        pytest.param(PUT.replace("(x)\n", "(\n        x,\n    )\n", 2).replace("def f(\n        x,\n    )", "def f(x)"), id="formatted"),
        pytest.param(PUT.replace("def f", "def other"), id="function renamed"),
        pytest.param(PUT.replace("    return", "    # why\n    return"), id="commented"),
    ],
)  # fmt: skip
def test_known_findings_are_known_by_what_they_are_about(write: Write, run: Run, text: str) -> None:
    root = known(write, run, {"x.py": PUT})
    write({"x.py": text})
    ran = run("check", cwd=root)
    assert (ran.code, len(entries(root))) == (0, 1), ran.out


def test_a_second_one_of_the_same_words_is_new(write: Write, run: Run) -> None:
    root = known(write, run, {"x.py": PUT})
    write({"x.py": PUT + MORE})
    ran = run("check", "--output-format", "concise", cwd=root)
    assert (ran.code, ran.out.count("XT101")) == (1, 1)
    assert ran.out.startswith("x.py:9:12: ")
    assert "1 new finding in 1 file." in ran.out


def test_a_file_that_moved_is_known_where_it_is_now(write: Write, run: Run) -> None:
    root = known(write, run, {"x.py": PUT})
    (root / "x.py").rename(root / "y.py")
    assert run("check", cwd=root).code == 0
    assert [one["path"] for one in entries(root)] == ["y.py"]


def test_it_shrinks_by_itself_and_never_grows_by_itself(write: Write, run: Run) -> None:
    root = known(write, run, {"x.py": PUT + MORE})
    write({"x.py": PUT})
    ran = run("check", cwd=root)
    assert (ran.code, len(entries(root))) == (0, 1)
    assert "1 gone from it now; commit it." in ran.out
    write({"x.py": PUT + MORE})
    assert run("check", cwd=root).code == 1
    told = run("baseline", cwd=root)
    assert (told.code, len(entries(root))) == (1, 1)
    assert "1 finding not in it; `shardlint check` shows them, --add adds them." in told.out
    assert run("baseline", "--add", cwd=root).code == 0
    assert (len(entries(root)), run("check", cwd=root).code) == (2, 0)


def test_without_findings_the_file_goes(write: Write, run: Run) -> None:
    root = known(write, run, {"x.py": PUT})
    write({"x.py": "x = 1\n"})
    assert run("check", cwd=root).code == 0
    assert not (root / NAME).exists()


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (["--select", "XT103"], {}),
        (["--ignore", "XT101"], {}),
        (["--target", "jax=0.8", "--ignore", "XT101"], {}),
        (["y.py"], {}),
        ([], {"CI": "true"}),
        (["--no-baseline"], {}),
    ],
)
def test_a_run_that_would_not_have_found_it_leaves_it(
    write: Write, run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], environ: dict[str, str]
) -> None:
    root = known(write, run, {"x.py": PUT + MORE, "y.py": "y = 1\n"})
    write({"x.py": PUT})
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    run("check", *arguments, cwd=root)
    assert len(entries(root)) == 2


def test_what_does_not_parse_stays_known(write: Write, run: Run) -> None:
    root = known(write, run, {"x.py": PUT})
    write({"x.py": PUT + "(\n"})
    run("check", "--ignore", "SL001", cwd=root)
    run("check", cwd=root)
    assert [one["code"] for one in entries(root)] == ["XT101"]


def test_less_sure_findings_stay_known(write: Write, run: Run) -> None:
    root = write({"x.py": "import jax\njax.numpy.sum(1)\n"})
    assert run("baseline", "--certainty", "possible", cwd=root).code == 0
    assert run("check", cwd=root).code == 0
    assert len(entries(root)) == 1
    assert run("check", "--certainty", "possible", cwd=root).code == 0


def test_settings_name_the_file(write: Write, run: Run) -> None:
    root = write({"x.py": PUT, "shardlint.toml": 'baseline = "ci/known.json"\n', "ci/.keep": ""})
    assert run("baseline", cwd=root).code == 0
    assert (root / "ci" / "known.json").exists()
    assert run("check", cwd=root).code == 0
    assert json.loads((root / "ci" / "known.json").read_text())["findings"][0]["path"] == "../x.py"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 1}', '{"version": 9, "findings": []}',
                                  '{"version": 1, "findings": [{"path": 1}]}', "<<<<<<< HEAD\n"])  # fmt: skip
def test_a_broken_baseline_is_told(write: Write, run: Run, text: str) -> None:
    root = write({"x.py": PUT, NAME: text})
    ran = run("check", cwd=root)
    assert (ran.code, ran.out) == (2, "")
    assert NAME in ran.err
    assert "Traceback" not in ran.err
    assert (root / NAME).read_text() == text


def test_the_report_for_programs_counts_what_is_known(write: Write, run: Run) -> None:
    root = known(write, run, {"x.py": PUT})
    document = json.loads(run("check", "--output-format", "json", cwd=root).out)
    assert (document["findings"], document["known"]) == ([], 1)


# comments


def silenced(write: Write, run: Run, files: dict[str, str], *arguments: str) -> tuple[Path, Ran]:
    root = write(files)
    return root, run("check", "--add-suppressions", "known, see #12", *arguments, cwd=root)


def test_every_finding_gets_a_comment_with_the_reason(write: Write, run: Run) -> None:
    root, ran = silenced(write, run, {"x.py": PUT + MORE})
    assert ran.code == 0
    assert ran.err.startswith("Suppressed 2 findings in 1 file;")
    text = (root / "x.py").read_text()
    assert text.count("jax.device_put(x)  # shardlint: ignore[XT101] known, see #12\n") == 2
    assert run("check", cwd=root).code == 0


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            "import jax\njax.device_put(\n    1,\n)  # noqa\n",
            ")  # noqa  # shardlint: ignore[XT101] known, see #12",
            id="several lines, another comment",
        ),
        pytest.param(
            "import jax\nimport numpy as np\njax.device_put(np.square(1))\n",
            "jax.device_put(np.square(1))  # shardlint: ignore[XT101, XT201] known, see #12",
            id="two rules",
        ),
        pytest.param(
            "import jax\nimport numpy as np\njax.device_put(np.square(1))  # shardlint: ignore[XT201] old\n",
            "jax.device_put(np.square(1))  # shardlint: ignore[XT201, XT101] old",
            id="a comment that is there",
        ),
        pytest.param(
            f"import jax\nif x:\n    jax.device_put('{'a' * 60}')\n",
            "    # shardlint: ignore-next-line[XT101] known, see #12",
            id="a long line",
        ),
        pytest.param(
            "import jax\nx = jax.device_put('''\n''')\n",
            "''')  # shardlint: ignore[XT101] known, see #12",
            id="a string of lines",
        ),
        pytest.param(
            "import jax\nx = \\\n    jax.device_put(1)\n",
            "    jax.device_put(1)  # shardlint: ignore[XT101] known, see #12",
            id="a backslash",
        ),
        pytest.param(
            "import jax\nwith jax.device_put(1):\n    pass\n",
            "with jax.device_put(1):  # shardlint: ignore[XT101] known, see #12",
            id="a head",
        ),
    ],
)
def test_comments_stand_where_they_count(write: Write, run: Run, text: str, line: str) -> None:
    root, ran = silenced(write, run, {"x.py": text})
    assert line in (root / "x.py").read_text().splitlines()
    assert ran.code == 0, ran.out + ran.err
    assert run("check", cwd=root).code == 0


def test_line_ends_are_kept(write: Write, run: Run) -> None:
    root = write({"x.py": b"import jax\r\njax.device_put(1)\r\n"})
    assert run("check", "--add-suppressions", "why", cwd=root).code == 0
    assert (
        root / "x.py"
    ).read_bytes() == b"import jax\r\njax.device_put(1)  # shardlint: ignore[XT101] why\r\n"


def test_a_notebook_gets_its_comments(write: Write, run: Run) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None,
            "source": ["import jax\n", "jax.device_put(1)"]}  # fmt: skip
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    root, ran = silenced(write, run, {"x.ipynb": json.dumps(book, indent=1)})
    after = json.loads((root / "x.ipynb").read_text())
    assert after["cells"][0]["source"][1] == "jax.device_put(1)  # shardlint: ignore[XT101] known, see #12"
    assert ran.code == 0


@pytest.mark.parametrize("reason", ["", " ", "a\nb", "# x", "[XT101]"])
def test_a_reason_is_asked_for(write: Write, run: Run, reason: str) -> None:
    root = write({"x.py": PUT})
    ran = run("check", "--add-suppressions", reason, cwd=root)
    assert (ran.code, (root / "x.py").read_text()) == (2, PUT)
    assert "a reason on one line" in ran.err


@pytest.mark.parametrize(
    ("comment", "quiet"),
    [
        ("ignore[XT1] why", True),
        ("ignore[XT] why", True),
        ("ignore[device-put-told] why", True),
        ("ignore[XT2] why", False),
        ("ignore[asarray-moved] why", False),
        ("ignore-file[XT1] why", True),
    ],
)
def test_prefixes_and_names_silence(write: Write, run: Run, comment: str, quiet: bool) -> None:
    root = write({"x.py": f"import jax\njax.device_put(1)  # shardlint: {comment}\n"})
    assert ("XT101" not in run("check", cwd=root).out) is quiet


def test_a_comment_for_the_next_line(write: Write, run: Run) -> None:
    comment = "# shardlint: ignore-next-line[XT101] why\n"
    body = f"import jax\n{comment}# and\n\njax.device_put(\n    jax.device_put(1)\n)\njax.device_put(2)\n"
    root = write({"x.py": body})
    ran = run("check", "--output-format", "concise", cwd=root)
    assert [line.split(" ")[0] for line in ran.out.splitlines()[:-2]] == ["x.py:8:1:"], ran.out
    root = write({"x.py": f"import jax\njax.device_put(2)\n{comment}x = 1\n"})
    assert "SL002" in run("check", cwd=root).out


def test_an_unknown_word_in_a_comment_is_told_with_what_is_near(write: Write, run: Run) -> None:
    root = write({"x.py": "import jax\njax.device_put(1)  # shardlint: ignore[device-put-tol] why\n"})
    assert "No rule is called device-put-tol (did you mean device-put-told?)" in run("check", cwd=root).out


# the rest of a first day


def test_statistics_and_exit_zero(write: Write, run: Run) -> None:
    text = PUT + MORE + "import numpy as np\nnp.square(1)\n"
    ran = run("check", "--statistics", "--exit-zero", cwd=write({"x.py": text, "y.py": PUT}))
    assert ran.code == 0
    assert ran.out.splitlines()[:3] == [
        "3  XT101 device-put-told  [silent]  in 2 files",
        "1  XT201 square-nested  [cost]  in 1 file; fixes: 1 safe",
        "",
    ]
    assert run("check", "--exit-zero", "no.py", cwd=write({})).code == 2


def test_the_same_words_are_said_once_with_the_places(write: Write, run: Run) -> None:
    root = write({"a.py": PUT + MORE, "b.py": PUT + MORE})
    ran = run("check", cwd=root)
    assert ran.out.count(" XT101 ") == 1
    assert "   The same in 3 other places: a.py:9:12; b.py:5:12, 9:12\n" in ran.out
    assert "4 findings in 2 files." in ran.out
    assert run("check", "--select", "XT101", cwd=root).out.count(" XT101 ") == 4


def test_of_many_places_the_first_are_named(write: Write, run: Run) -> None:
    root = write({"a.py": PUT + MORE * 14})
    (line,) = [line for line in run("check", cwd=root).out.splitlines() if "The same in" in line]
    assert line.startswith("   The same in 14 other places: a.py:9:12, ")
    assert line.endswith("; and 2 more (--select XT101 shows each)") and line.count(":12") == 12


def test_extend_and_extend_select(write: Write, run: Run) -> None:
    files = {
        "x.py": "import jax\njax.numpy.max(1)\njax.device_put(1)\n",
        "base.toml": "ignore = ['XT101']\nextend-select = ['XT105']\n",
        "sub/shardlint.toml": "extend = '../base.toml'\nextend-select = []\n",
        "sub/x.py": "import jax\njax.numpy.max(1)\njax.device_put(1)\n",
    }
    root = write(files)

    def codes(*arguments: str) -> list[str]:
        document = json.loads(run("check", *arguments, "--output-format", "json", cwd=root).out)
        return [one["code"] for one in document["findings"]]

    assert codes("x.py") == ["XT101"]
    assert codes("x.py", "--extend-select", "XT105") == ["XT105", "XT101"]
    assert codes("x.py", "--config", "base.toml") == ["XT105"]
    assert codes("sub/x.py") == []
    assert codes("sub/x.py", "--select", "XT1") == ["XT105"]


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"shardlint.toml": "extend = 'no.toml'"}, "extend names 'no.toml', which does not exist"),
        ({"shardlint.toml": "extend = 'shardlint.toml'"}, "extend is circular"),
        ({"shardlint.toml": "extend = 1"}, "write a path such as"),
        ({"shardlint.toml": "extend-selct = []"}, "did you mean extend-select?"),
        ({"shardlint.toml": "extend-select = ['XT10l']"}, "extend-select: no rule"),
        ({"shardlint.toml": "baseline = []"}, "write a path such as"),
    ],
)
def test_settings_that_cannot_be_used(write: Write, run: Run, files: dict[str, str], says: str) -> None:
    ran = run("check", cwd=write({"x.py": PUT, **files}))
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["chek"], "no such command 'chek'; did you mean check?"),
        (["check", "--selct", "XT1"], "--select"),
        (["check", "--select", "device-put-tol"], "did you mean device-put-told?"),
        (["check", "--target", "jx=0.8"], "did you mean jax?"),
        (["check", "--output-format", "concice"], "did you mean concise?"),
        (["check", "--certainty", "liekly"], "did you mean likely?"),
        (["check", "--harm", "silnt"], "did you mean silent?"),
    ],
)
def test_a_word_that_is_nearly_right(write: Write, run: Run, arguments: list[str], says: str) -> None:
    ran = run(*arguments, cwd=write({"x.py": PUT}))
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


@pytest.mark.parametrize("place", ["../outside.json", "link.json", "folder/../../outside.json", "absolute"])
def test_a_baseline_outside_of_the_project_is_refused(run: Run, tmp_path: Path, place: str) -> None:
    root = tmp_path / "project"
    (root / "folder").mkdir(parents=True)
    outside = tmp_path / "outside.json"
    named = str(outside) if place == "absolute" else place
    (root / "shardlint.toml").write_text(f"baseline = {named!r}\n")
    (root / "a.py").write_text("import jax\n")
    if place == "link.json":
        (root / place).symlink_to(outside)
    for command in ("check", "baseline", "fix"):
        ran = run(command, ".", cwd=root)
        assert ran.code == 2 and "outside the project" in ran.err
    assert not outside.exists()
